import { expect, test } from 'vitest'
import { createProviderClock } from '../../src/provider/provider.ts'

const start = Date.parse('2026-11-21T12:00:00.000Z')

function clockAt(nowMs = start) {
  const warnings: object[] = []
  const log = { warn: (fields: object) => void warnings.push(fields) }
  const clock = createProviderClock(() => new Date(nowMs), log)
  const answer = (date: number, durationMs = 100) =>
    clock.note({ date: new Date(date), durationMs })
  return { clock, answer, warnings }
}

test('the clock of the provider is ours until a quick answer has a date', () => {
  const { clock, answer } = clockAt()
  answer(start - 600_000, 9_000)
  expect([clock.isMeasured(), clock.read(), clock.now().getTime()]).toEqual([
    false,
    { status: 'unknown', aheadSeconds: null },
    start,
  ])
})

test('a difference of a few seconds counts for nothing, since a date has whole seconds', () => {
  const { clock, answer } = clockAt()
  answer(start - 3_000)
  expect([clock.read().aheadSeconds, clock.now().getTime()]).toEqual([0, start])
})

test('one odd date does not move the clock, and a date of another day is none', () => {
  const { clock, answer, warnings } = clockAt()
  for (const date of [start, start, start - 600_000, start - 100 * 86_400_000]) answer(date)
  expect(clock.read()).toEqual({ status: 'ok', aheadSeconds: 0 })
  expect(warnings).toEqual([])
})

test('from 60 seconds it is degraded and warned of once, until the clocks agree again', () => {
  const { clock, answer, warnings } = clockAt()
  for (let call = 0; call < 5; call += 1) answer(start - 90_550)
  expect(clock.read()).toEqual({ status: 'degraded', aheadSeconds: 90 })
  expect(warnings).toEqual([{ aheadSeconds: 90 }])
  expect(clock.toOurs(clock.now()).getTime()).toBe(start)
  for (let call = 0; call < 5; call += 1) answer(start)
  expect(clock.read().status).toBe('ok')
})
