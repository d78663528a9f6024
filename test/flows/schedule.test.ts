import { describe, expect, test } from 'vitest'
import { flowSchema } from '../../src/flows/definition/schema.ts'
import { findingIn } from '../../src/flows/definition/value-schemas.ts'
import { plannedAfter } from '../../src/flows/engine/poll-schedule.ts'
import { sentenceOf } from '../../src/texts/reason.ts'

/** Polls begin at the times of a cron expression in a time zone, also when its clock changes. */
const at = (text: string) => new Date(text)
const planned = (cron: string, timeZone: string, last: string, pollIntervalMs = 1_000) =>
  plannedAfter({ pollIntervalMs, schedule: { cron, timeZone } }, at(last))?.toISOString()

const newYork = 'America/New_York' // changes its clocks on 2026-03-08 and 2026-11-01
const argentina = 'America/Argentina/Buenos_Aires' // does not

test.each([
  [
    'the next quarter',
    '*/15 * * * *',
    argentina,
    '2026-11-20T13:01:00Z',
    '2026-11-20T13:15:00.000Z',
  ],
  [
    'by the clock of the zone',
    '0 8 * * *',
    argentina,
    '2026-11-20T12:00:00Z',
    '2026-11-21T11:00:00.000Z',
  ],
  [
    'not on Sunday',
    '0 8 * * mon-sat',
    argentina,
    '2026-11-21T12:00:00Z',
    '2026-11-23T11:00:00.000Z',
  ],
  [
    'a time that is left out comes when the clock has changed',
    '30 2 * * *',
    newYork,
    '2026-03-07T12:00:00Z',
    '2026-03-08T07:00:00.000Z',
  ],
  [
    'the day after it is itself again',
    '30 2 * * *',
    newYork,
    '2026-03-08T12:00:00Z',
    '2026-03-09T06:30:00.000Z',
  ],
  [
    'a time that comes twice comes once',
    '30 1 * * *',
    newYork,
    '2026-11-01T05:31:00Z',
    '2026-11-02T06:30:00.000Z',
  ],
  [
    'each hour has its poll when the clock goes back',
    '0 * * * *',
    newYork,
    '2026-11-01T05:00:30Z',
    '2026-11-01T06:00:00.000Z',
  ],
])('%s', (_, cron, timeZone, last, expected) => {
  expect(planned(cron, timeZone, last)).toBe(expected)
})

test('not before pollInterval after the last poll', () => {
  expect(planned('* * * * *', 'UTC', '2026-11-20T13:00:10Z', 600_000)).toBe(
    '2026-11-20T13:11:00.000Z',
  )
})

test('after downtime one poll is due, not one for each missed time', () => {
  const next = planned('0 * * * *', 'UTC', '2026-11-20T13:00:10Z') ?? ''
  expect(next).toBe('2026-11-20T14:00:00.000Z')
  expect(planned('0 * * * *', 'UTC', '2026-11-20T19:30:00Z')).toBe('2026-11-20T20:00:00.000Z')
})

test('without a schedule the next poll is due pollInterval after the last', () => {
  const flow = { pollIntervalMs: 60_000, schedule: undefined }
  expect(plannedAfter(flow, at('2026-11-20T13:00:10Z'))).toEqual(at('2026-11-20T13:01:10Z'))
})

describe('a flow file', () => {
  const parse = (extra: object) =>
    flowSchema({
      env: {},
      readFile: () => '',
      mail: { smtpUrl: undefined, mailFrom: undefined },
    }).safeParse({
      version: 1,
      name: 'x',
      pollInterval: '1m',
      source: { type: 'file', path: './x.json', format: 'json' },
      item: { key: 'id' },
      destinations: [{ name: 'out', type: 'file', path: './out.ndjson', format: 'ndjson' }],
      ...extra,
    })
  const problem = (extra: object) => {
    const finding = findingIn(parse(extra).error?.issues[0]?.message ?? '')
    return finding && sentenceOf(finding.why, 'en')
  }

  test.each([
    ['61 * * * *', /^is no cron expression: .*minute: 61/],
    ['* * * *', 'must have five fields, such as "*/15 8-20 * * mon-sat"'],
    ['0 0 31 2 *', 'never comes'],
    ['2026-01-01T00:00:00', 'must have five fields, such as "*/15 8-20 * * mon-sat"'],
  ])('cron %s is refused, with the reason', (cron, message) => {
    expect(problem({ schedule: { cron } })).toEqual(
      typeof message === 'string' ? message : expect.stringMatching(message),
    )
  })

  test('the time zone must exist', () => {
    expect(problem({ schedule: { cron: '0 8 * * *', timeZone: 'Mars/Olympus' } })).toMatch(
      /^must be a time zone/,
    )
  })
})
