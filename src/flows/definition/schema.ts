import { Cron } from 'croner'
import { z } from 'zod'
import type { Reason } from '../../texts/reason.ts'
import { alertsSchema } from './alert-schema.ts'
import { contextSchema } from './context-schema.ts'
import { destinationSchema } from './destination-schema.ts'
import type { FlowContext } from './flow-context.ts'
import { emptyReach } from './reach.ts'
import { sourceSchema } from './source-schema.ts'
import {
  column,
  duration,
  findingMessage,
  jsonata,
  name,
  oneOrMore,
  report,
  timeZone,
  whole,
} from './value-schemas.ts'

const hash = () =>
  z
    .strictObject({
      ignore: z
        .array(column())
        .prefault([])
        .meta({
          description:
            'fields whose change is no change of the item, such as one that changes in every record',
          examples: [['modificado']],
        }),
      trim: z
        .boolean()
        .prefault(false)
        .meta({ description: 'cuts blanks at both ends of every text', examples: [true] }),
      emptyAsNull: z
        .boolean()
        .prefault(false)
        .meta({ description: 'an empty text becomes null', examples: [true] }),
      decimals: z
        .record(column(), whole(0, 20))
        .prefault({})
        .meta({
          description: 'field: number of decimals; its value becomes a text such as "-34.603700"',
          examples: [{ latitud: 6, longitud: 6 }],
        }),
    })
    .prefault({})

const item = () =>
  z.strictObject({
    key: oneOrMore().meta({
      description:
        'the fields that identify an item. A poll fails when no record has a field that a key, cursor, filter or mapping uses; `$exists(field)` and `optional: true` allow that',
      examples: ['codigo'],
    }),
    hash: hash().meta({
      description: 'which values count as a change of the item',
      examples: [{ ignore: ['fecha_modif'] }],
    }),
    filter: jsonata()
      .optional()
      .meta({
        description: 'JSONata; the flow leaves out items for which it is not true',
        examples: ['baja != "S"'],
      }),
    onDefinitionChange: z
      .enum(['ask', 'send', 'keep'])
      .prefault('ask')
      .meta({
        description:
          'what becomes of the differences that a changed definition makes: `ask` waits for an answer, `send` sends them, `keep` takes them for delivered. Until the change is accepted, the destinations it concerns are sent nothing. Writing the former definition again takes the question back',
        examples: ['keep'],
      }),
  })

const guard = () =>
  z
    .strictObject({
      emptySource: z
        .enum(['refuse', 'allow'])
        .prefault('refuse')
        .meta({
          description: 'whether a source without any record may delete all items',
          examples: ['refuse'],
        }),
      maxPercent: z
        .number()
        .min(0)
        .max(100)
        .prefault(10)
        .meta({
          description: 'the flow asks when more than this part of the items is gone at once',
          examples: [10],
        }),
      minItems: whole(0, 1_000_000_000)
        .prefault(10)
        .meta({ description: 'this many deletes are never asked about', examples: [10] }),
    })
    .prefault({})

const deletes = () =>
  z
    .strictObject({
      mode: z
        .enum(['ignore', 'delete'])
        .prefault('ignore')
        .meta({
          description:
            '`delete` deletes at the destinations what a full scan no longer finds; `ignore` leaves it there. A delete follows the changes of its scan. It is not sent while another item has the same identity at the destination',
          examples: ['delete'],
        }),
      scans: whole(1, 100)
        .optional()
        .meta({
          description:
            'full scans in a row that must miss an item; 2 for paged http and mssql, else 1',
          examples: [2],
        }),
      guard: guard().meta({
        description:
          'when the flow asks before it deletes. An answer counts once, for items that the next full scan misses too',
        examples: [{ maxPercent: 10, minItems: 10 }],
      }),
    })
    .prefault({})

const queue = () =>
  z
    .strictObject({
      keepCompleted: duration('0s', '366d')
        .prefault('7d')
        .meta({
          description: 'how long completed deliveries are kept, 0s to 366d',
          examples: ['7d'],
        }),
      keepFailed: duration('0s', '3660d')
        .prefault('90d')
        .meta({
          description: 'how long failed deliveries are kept, 0s to 3660d',
          examples: ['90d'],
        }),
      keepHistory: duration('0s', '3660d')
        .prefault('30d')
        .meta({
          description:
            'how long versions and attempts of items are kept, 0s (none) to 3660d. The last content of an item whose file is archived or deleted stays with its delivery',
          examples: ['30d'],
        }),
    })
    .transform(({ keepCompleted, keepFailed, keepHistory }) => ({
      keepCompletedMs: keepCompleted,
      keepFailedMs: keepFailed,
      keepHistoryMs: keepHistory,
    }))
    .prefault({})

/** When a flow is polled. */
const times = () => ({
  pollInterval: duration('1s', '24h').meta({
    description: 'from the end of a poll to the next',
    examples: ['1m'],
  }),
  schedule: schedule().meta({
    description:
      'times of the polls, instead of `pollInterval`. After downtime one poll makes up for all that were missed; a start alone polls nothing',
    examples: [{ cron: '*/15 8-20 * * mon-sat', timeZone: 'America/Argentina/Buenos_Aires' }],
  }),
  window: window().meta({
    description: 'the hours in which polls may begin; without it always',
    examples: [
      {
        days: ['mon', 'fri'],
        from: '07:00',
        to: '22:00',
        timezone: 'America/Argentina/Buenos_Aires',
      },
    ],
  }),
})

function build(context: FlowContext) {
  return z
    .strictObject({
      version: z.literal(1).meta({ description: "the version of the file's form", examples: [1] }),
      name: name().meta({
        description: 'the name in the control API and on the page; each flow has another one',
        examples: ['articulos'],
      }),
      description: z
        .string()
        .max(1_000)
        .optional()
        .meta({
          description: 'for the page of the operator',
          examples: ['Artículos y precios del ERP hacia la tienda web, y un listado en CSV'],
        }),
      ...times(),
      startPaused: z
        .boolean()
        .prefault(false)
        .meta({
          description: 'the flow starts paused the first time that the service sees it',
          examples: [true],
        }),
      allowPrivateNetwork: z
        .boolean()
        .prefault(false)
        .meta({
          description:
            'HTTP sources, destinations and alerts may be on loopback and private addresses',
          examples: [true],
        }),
      source: sourceSchema(context).describe('where items come from'),
      item: item().meta({
        description: 'what makes records items, and when one has changed',
        examples: [{ key: 'codigo' }],
      }),
      deletes: deletes().meta({
        description: 'what happens at the destinations when the source no longer has an item',
        examples: [{ mode: 'delete' }],
      }),
      destinations: z
        .array(destinationSchema(context))
        .min(1)
        .max(50)
        .describe('where every changed item goes'),
      queue: queue().meta({
        description: 'how long deliveries are kept, and how many may wait',
        examples: [{ keepFailed: '90d' }],
      }),
      alerts: alertsSchema(context).meta({
        description: 'who gets alerts',
        examples: [{ onJobFailed: [{ type: 'email', to: ['sistemas@acme.example'] }] }],
      }),
    })
    .transform(({ pollInterval, ...rest }) => ({
      ...rest,
      pollIntervalMs: pollInterval,
      // The reader of the file knows it.
      reach: emptyReach,
    }))
}

/** The schema of a flow file, without the references of a context. */
const flowSchemaOf = contextSchema(build)

/** For what needs no parse, such as its JSON Schema. */
export const zodFlowSchema = flowSchemaOf.schema

/**
 * The schema of a flow file. Unknown keys are errors. In the result, durations are milliseconds with names that end in `Ms`,
 * and texts that may contain a secret are `Secret`. `ruleFindings` checks the rules that involve several keys.
 */
export const flowSchema = flowSchemaOf.within

/** A validated flow, as the engine uses it. */
export type Flow = z.output<ReturnType<typeof build>>

const time = (pattern: RegExp) =>
  z.string().regex(pattern, findingMessage({ code: 'MUST_BE_TIME_OF_DAY' }))

export const window = () =>
  z
    .strictObject({
      days: z
        .array(z.enum(['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']))
        .min(1)
        .prefault(['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'])
        .meta({
          description: 'the days on which polls may begin; without it all',
          examples: [['mon', 'tue', 'wed']],
        }),
      from: time(/^([01]\d|2[0-3]):[0-5]\d$/)
        .prefault('00:00')
        .meta({ description: 'the time from which polls may begin', examples: ['07:00'] }),
      to: time(/^(([01]\d|2[0-3]):[0-5]\d|24:00)$/)
        .prefault('24:00')
        .meta({
          description: 'an earlier time than `from` is on the next day',
          examples: ['22:00'],
        }),
      timezone: timeZone()
        .prefault('UTC')
        .meta({
          description: 'the time zone of `from` and `to`',
          examples: ['America/Argentina/Buenos_Aires'],
        }),
    })
    .refine(({ from, to }) => from !== to, findingMessage({ code: 'WINDOW_EMPTY' }))
    .optional()

/** Start times of polls, instead of a fixed interval. */
export const schedule = () =>
  z
    .strictObject({
      cron: z
        .string()
        .max(200)
        .superRefine((text, issues) => {
          const problem = problemOf(text)
          if (problem) report(issues, problem)
        })
        .meta({
          description:
            'five fields: minute, hour, day of the month, month, day of the week. A time that a clock change leaves out runs after it; one that comes twice runs once',
          examples: ['*/15 8-20 * * mon-sat'],
        }),
      timeZone: timeZone()
        .prefault('UTC')
        .meta({ description: 'the time zone of these times', examples: ['UTC'] }),
    })
    .optional()

function problemOf(text: string): Reason | undefined {
  if (text.trim().split(/\s+/).length !== 5) {
    return { code: 'CRON_FIELDS' }
  }
  try {
    const cron = new Cron(text, { mode: '5-part', paused: true })
    return cron.nextRun(new Date('2026-01-01T00:00:00Z')) ? undefined : { code: 'CRON_NEVER' }
  } catch (error) {
    const said =
      error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error)
    return { code: 'CRON_WRONG', data: { said } }
  }
}
