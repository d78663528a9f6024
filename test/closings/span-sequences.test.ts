import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { ClosingRow } from '../../src/repositories/closings/closing-queries.ts'
import { openOwnShop } from '../support/money.ts'
import { rounds } from '../support/rounds.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, createStore } from '../support/till.ts'
import { expectContinuousSpans, listRows } from './check-spans.ts'
import { openClosing, sell, today } from './shop-day.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
/** Where a requested span begins, relative to the end of the last closing. */
const moves = [0, 0, 0, -hourMs, hourMs, dayMs, -dayMs]

let service: TestService
let duplicate: TestService
beforeAll(async () => {
  service = await startTestService()
  duplicate = await startTestService({ twinOf: service })
})
// The sequences are the same at every time of the day, and whatever test runs first.
beforeEach(() => {
  service.clock.advance(dayMs - (service.clock.now().getTime() % dayMs) + 9 * hourMs)
})
afterAll(async () => {
  await duplicate.stop()
  await service.stop()
})

/** Mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const dayBefore = (days: number) =>
  new Date(Date.parse(today(service)) - days * dayMs).toISOString().slice(0, 10)
const spanBody = (fromMs: number, toMs: number) => ({
  business_day: undefined,
  from: new Date(fromMs).toISOString(),
  to: new Date(toMs).toISOString(),
})
/** Without what a closing of the days before the first one changes in this: it follows then. */
const textOf = (row: ClosingRow | undefined) => JSON.stringify({ ...row, follows_at: undefined })

test('any sequence of requests, signatures and clock changes leaves closings without gap or overlap, each sale in one of them', {
  timeout: 60_000 + rounds(2) * 20_000,
  tags: ['long'],
}, async () => {
  const answers = new Map<string, number>()
  for (let seed = 1; seed <= rounds(2); seed += 1) {
    const till = await openOwnShop(service, `sequence ${seed}`)
    await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2'] })
    const random = randomOf(seed)
    const upTo = (most: number) => Math.floor(random() * most)
    const sent: object[] = []
    const soldAt: Date[] = []

    const newRequest = async (): Promise<object> => {
      const place = random() < 0.8 ? {} : { caja_id: undefined, sucursal_id: 'SUC-1' }
      const counted = random() < 0.5 ? { declared: { qr: `${upTo(500)},00` } } : {}
      if (random() < 0.5) return { ...place, ...counted, business_day: dayBefore(upTo(4)) }
      const rows = await listRows(service, till)
      const nowMs = service.clock.now().getTime()
      const endMs = rows.at(-1)?.to_at.getTime() ?? nowMs - dayMs
      const fromMs = endMs + (moves[upTo(moves.length)] ?? 0)
      const toMs = fromMs + (1 + upTo(12)) * hourMs
      return { ...place, ...counted, ...spanBody(Math.min(fromMs, nowMs - minuteMs), toMs) }
    }

    const request = async () => {
      const repeated = sent[upTo(sent.length)]
      const body = random() < 0.3 && repeated ? repeated : await newRequest()
      sent.push(body)
      const before = new Map((await listRows(service, till)).map((row) => [row.id, row]))
      const answer = await openClosing(random() < 0.5 ? service : duplicate, till, body)
      const rows = await listRows(service, till)
      expectContinuousSpans(rows)
      const answered = answer.json()
      const outcome = `${answer.statusCode} ${answered.code ?? ''}`
      answers.set(outcome, (answers.get(outcome) ?? 0) + 1)
      const others = rows.filter(({ id }) => id !== answered.id)
      // A request changes only the closing that it returns.
      expect(others.map(textOf), outcome).toEqual(others.map(({ id }) => textOf(before.get(id))))
      const known = before.get(answered.id)
      const row = rows.find(({ id }) => id === answered.id)
      if (answer.statusCode === 202) {
        expect(known).toBeUndefined()
        expect(rows).toHaveLength(before.size + 1)
      } else if (answer.statusCode === 200) {
        expect([row?.from_at, row?.number]).toEqual([known?.from_at, known?.number])
        if (known?.state === 'signed') expect(textOf(row)).toBe(textOf(known))
      } else {
        expect(outcome).toMatch(/^409 CLOSING_(OVERLAPS|GAP|SIGNED)$/)
        expect(rows).toHaveLength(before.size)
      }
      const { declared } = body as { declared?: { qr: string } }
      if (answer.statusCode < 300 && declared) {
        expect(row?.declared).toEqual({ qr: Number.parseInt(declared.qr, 10) * 100 })
      }
      if (answered.code === 'CLOSING_OVERLAPS') expect(before.has(answered.closing.id)).toBe(true)
      if (answer.statusCode < 300) {
        const again = await openClosing(service, till, body)
        expect([again.statusCode, again.json().id]).toEqual([200, answered.id])
      }
    }

    const sign = async () => {
      service.clock.advance(61_000)
      await service.paymentWatch.watchOnce()
      const unsigned = (await listRows(service, till)).filter(({ state }) => state !== 'signed')
      const row = unsigned[upTo(unsigned.length)]
      if (row) {
        await call(service, {
          method: 'POST',
          url: `/closings/${row.id}/sign`,
          token: till.key,
        })
      }
    }

    /** As a program does that closes the day, and earlier days that are still open first. */
    const closeAll = async () => {
      for (let tries = 0; tries < 20; tries += 1) {
        const answer = await openClosing(service, till, { business_day: today(service) })
        if (answer.statusCode < 300) return
        const { code, uncovered } = answer.json()
        expect(code).toBe('CLOSING_GAP')
        const { business_day } = uncovered
        const earlier = await openClosing(service, till, { business_day })
        expect(earlier.statusCode, earlier.body).toBeLessThan(300)
      }
      throw new Error('still not closed')
    }

    for (let step = 0; step < 60; step += 1) {
      const dice = random()
      if (dice < 0.65) await request()
      else if (dice < 0.8) await sign()
      else if (dice < 0.9) {
        soldAt.push(service.clock.now())
        await sell(service, till, `S-${step}`, { amount: '10,00' })
      } else service.clock.advance(upTo(40) * hourMs)
      service.clock.advance(upTo(90) * minuteMs)
    }
    await closeAll()
    service.clock.advance(61_000)
    await service.paymentWatch.watchOnce()
    const rows = (await listRows(service, till)).filter(({ caja_id: box }) => box !== null)
    expectContinuousSpans(rows)
    const beganAt = rows[0]?.from_at ?? service.clock.now()
    const counted = rows.reduce((sum, { totals }) => sum + (totals?.here.count ?? 0), 0)
    expect(counted).toBe(soldAt.filter((at) => at >= beganAt).length)
  }
  // Each outcome occurred, otherwise the sequences prove nothing.
  expect([...answers.keys()].toSorted()).toEqual([
    '200 ',
    '202 ',
    '409 CLOSING_GAP',
    '409 CLOSING_OVERLAPS',
    '409 CLOSING_SIGNED',
  ])
})

test('concurrent requests from two processes leave no overlap and no gap, and each closing has its own number', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'at once')
  for (let round = 0; round < rounds(6); round += 1) {
    // Sold after the last closing, so that some of the requests extend it while others follow it.
    service.clock.advance(4 * hourMs)
    await sell(service, till, `R-${round}`)
    service.clock.advance(hourMs)
    const before = await listRows(service, till)
    const nowMs = service.clock.now().getTime()
    const endMs = before.at(-1)?.to_at.getTime() ?? nowMs - 6 * hourMs
    const bodies: object[] = [
      { business_day: today(service) },
      { business_day: dayBefore(1) },
      ...[1, 2, 3].map((hours) => spanBody(endMs, endMs + hours * hourMs)),
      spanBody(endMs + hourMs, endMs + 9 * hourMs),
      spanBody(endMs - hourMs, endMs + hourMs),
      spanBody(endMs + 2 * hourMs, nowMs + hourMs),
    ]
    const answers = await Promise.all(
      [...bodies, ...bodies, ...bodies].map((body, at) =>
        openClosing(at % 2 === 0 ? service : duplicate, till, body),
      ),
    )
    const rows = await listRows(service, till)
    expectContinuousSpans(rows)
    const opened = answers.flatMap((answer) =>
      answer.statusCode === 202 ? [answer.json().id] : [],
    )
    const known = new Set(before.map(({ id }) => id))
    expect(opened.toSorted()).toEqual(
      rows.flatMap(({ id }) => (known.has(id) ? [] : [id])).toSorted(),
    )
    for (const answer of answers) {
      expect([200, 202, 409], answer.body).toContain(answer.statusCode)
    }
  }
})
