import { Cron } from 'croner'
import { z } from 'zod'
import type { Reason } from '../../domain/flow-reasons.ts'
import { findingMessage, report, timeZone } from './fields.ts'

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
