import { Cron } from 'croner'
import { z } from 'zod'
import { timeZone } from './fields.ts'

const time = (pattern: RegExp) => z.string().regex(pattern, 'must be a time such as "07:00"')

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
    .refine(({ from, to }) => from !== to, 'from and to must differ; leave both out for all day')
    .optional()
    .describe('polls begin only then; without it always')

/** Times at which polls begin, in the place of a plain interval. */
export const schedule = () =>
  z
    .strictObject({
      cron: z
        .string()
        .max(200)
        .superRefine((text, issues) => {
          const problem = problemOf(text)
          if (problem) issues.addIssue({ code: 'custom', message: problem })
        })
        .describe('five fields: minute, hour, day of the month, month, day of the week'),
      timeZone: timeZone().prefault('UTC').describe('of the clock that the times are of'),
    })
    .optional()
    .describe(
      'polls begin at these times, and no sooner than pollInterval after the end of the last one',
    )

function problemOf(text: string): string | undefined {
  if (text.trim().split(/\s+/).length !== 5) {
    return 'must have five fields, such as "*/15 8-20 * * mon-sat"'
  }
  try {
    const cron = new Cron(text, { mode: '5-part', paused: true })
    return cron.nextRun(new Date('2026-01-01T00:00:00Z')) ? undefined : 'never comes'
  } catch (error) {
    const said = error instanceof Error ? error.message.replace(/^CronPattern: /, '') : 'unknown'
    return `is no cron expression: ${said}`
  }
}
