import { Cron } from 'croner'
import { z } from 'zod'
import type { Reason } from '../../domain/flow-reasons.ts'
import { alertsSchema } from './alert-schema.ts'
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
        .describe('fields whose change is no change of the item'),
      trim: z.boolean().prefault(false).describe('cut the blanks around every text'),
      emptyAsNull: z.boolean().prefault(false).describe('an empty text becomes null'),
      decimals: z
        .record(column(), whole(0, 20))
        .prefault({})
        .describe('field: number of decimals; its value becomes a text such as "-34.603700"'),
    })
    .prefault({})

const item = () =>
  z.strictObject({
    key: oneOrMore().describe('the fields that identify an item'),
    hash: hash(),
    filter: jsonata().optional().describe('JSONata; items for which it is not true are left out'),
    onDefinitionChange: z
      .enum(['ask', 'send', 'keep'])
      .prefault('ask')
      .describe(
        'what becomes of the differences that a changed definition makes: ask waits for an answer, send sends them, keep takes them for delivered',
      ),
  })

const guard = () =>
  z
    .strictObject({
      emptySource: z.enum(['refuse', 'allow']).prefault('refuse'),
      maxPercent: z.number().min(0).max(100).prefault(10),
      minItems: whole(0, 1_000_000_000).prefault(10),
    })
    .prefault({})

const deletes = () =>
  z
    .strictObject({
      mode: z.enum(['ignore', 'delete']).prefault('ignore'),
      scans: whole(1, 100)
        .optional()
        .describe(
          'full scans in a row without the item before it is deleted; without it 2 for paged http and mssql, else 1',
        ),
      guard: guard(),
    })
    .prefault({})

const queue = () =>
  z
    .strictObject({
      keepCompleted: duration('0s', '366d').prefault('7d'),
      keepFailed: duration('0s', '3660d').prefault('90d'),
      keepHistory: duration('0s', '3660d').prefault('30d'),
    })
    .transform(({ keepCompleted, keepFailed, keepHistory }) => ({
      keepCompletedMs: keepCompleted,
      keepFailedMs: keepFailed,
      keepHistoryMs: keepHistory,
    }))
    .prefault({})

/** The context of the parse that runs, for which Zod has no parameter. A parse is synchronous. */
let running: FlowContext | undefined

function required(): FlowContext {
  if (!running) throw new Error('the schema of flows parses inside flowSchema only')
  return running
}

const contextOfParse: FlowContext = {
  get env() {
    return required().env
  },
  get readFile() {
    return required().readFile
  },
  get mail() {
    return required().mail
  },
  get own() {
    return required().own
  },
}

function build(context: FlowContext) {
  return z
    .strictObject({
      version: z.literal(1).describe('of the form of this file'),
      name: name().describe('of the flow in the control API and on its page; unlike any other'),
      description: z.string().max(1_000).optional().describe('for the page of the operator'),
      pollInterval: duration('1s', '24h').describe('from the end of a poll to the next'),
      schedule: schedule(),
      window: window(),
      startPaused: z.boolean().prefault(false).describe('counts the first time a flow is seen'),
      allowPrivateNetwork: z
        .boolean()
        .prefault(false)
        .describe('HTTP sources, destinations and alerts may be on loopback and private addresses'),
      source: sourceSchema(context).describe('where items come from'),
      item: item().describe('what makes records items, and when one has changed'),
      deletes: deletes().describe('what happens when an item is no longer in the source'),
      destinations: z
        .array(destinationSchema(context))
        .min(1)
        .max(50)
        .describe('where every changed item goes'),
      queue: queue().describe('how long deliveries are kept, and how many may wait'),
      alerts: alertsSchema(context).describe('who gets alerts'),
    })
    .transform(({ pollInterval, ...rest }) => ({
      ...rest,
      pollIntervalMs: pollInterval,
      // The reader of the file knows it.
      reach: emptyReach,
    }))
}

type FlowSchema = ReturnType<typeof build>
let built: FlowSchema | undefined

/** Built once: that takes 20 ms, and the first parse compiles it. */
export function zodFlowSchema(): FlowSchema {
  built ??= build(contextOfParse)
  return built
}

/**
 * The schema of a flow file. Unknown keys are errors. In the result, durations are milliseconds with names that end in `Ms`,
 * and texts that may contain a secret are `Secret`. `ruleFindings` checks the rules that involve several keys.
 */
export function flowSchema(context: FlowContext): Pick<FlowSchema, 'parse' | 'safeParse'> {
  const within = <T>(parse: () => T): T => {
    const outer = running
    running = context
    try {
      return parse()
    } finally {
      running = outer
    }
  }
  return {
    parse: (...args) => within(() => zodFlowSchema().parse(...args)),
    safeParse: (...args) => within(() => zodFlowSchema().safeParse(...args)),
  }
}

/** A validated flow, as the engine uses it. */
export type Flow = z.output<FlowSchema>

const time = (pattern: RegExp) =>
  z.string().regex(pattern, findingMessage({ code: 'MUST_BE_TIME_OF_DAY' }))

export const window = () =>
  z
    .strictObject({
      days: z
        .array(z.enum(['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']))
        .min(1)
        .prefault(['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']),
      from: time(/^([01]\d|2[0-3]):[0-5]\d$/).prefault('00:00'),
      to: time(/^(([01]\d|2[0-3]):[0-5]\d|24:00)$/)
        .prefault('24:00')
        .describe('an earlier time than `from` is on the next day'),
      timezone: timeZone().prefault('UTC'),
    })
    .refine(({ from, to }) => from !== to, findingMessage({ code: 'WINDOW_EMPTY' }))
    .optional()
    .describe('polls begin only then; without it always')

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
        .describe('five fields: minute, hour, day of the month, month, day of the week'),
      timeZone: timeZone().prefault('UTC').describe('of the clock that the times are of'),
    })
    .optional()
    .describe(
      'polls begin at these times, and no sooner than pollInterval after the end of the last one',
    )

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
