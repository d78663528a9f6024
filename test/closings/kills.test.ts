/** @module-tag long */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database, Db, Trx } from '../../src/db/database.ts'
import type { ClosingRow } from '../../src/repositories/closings/closing-queries.ts'
import { openOwnShop } from '../support/money.ts'
import { rounds } from '../support/rounds.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { call, type Till } from '../support/till.ts'
import { expectContinuousSpans, listRows } from './check-spans.ts'
import { openClosing, sell, today, watchAfter } from './shop-day.ts'

/** `.ci/night` plays a hundred. */
const kills = rounds(25)
const minuteMs = 60_000
const hourMs = 60 * minuteMs

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService({ env: { RATE_LIMIT_PER_SECOND: '100000' } })
  till = await openOwnShop(service, 'killed')
})
afterAll(() => service.stop())

const sign = (by: TestService, id: string) =>
  call(by, { method: 'POST', url: `/closings/${id}/sign`, token: till.key })

/**
 * A database that fails after so many statements, or after so many commits: what was committed stays, and nothing else happens.
 * A transaction is cut between two of its statements, or committed without an answer.
 */
function killedAfter(
  database: Database,
  { statements = 1_000_000, commits = 1_000_000 },
): Database {
  let statementsLeft = statements
  let commitsLeft = commits
  const countDown = () => {
    statementsLeft -= 1
    if (statementsLeft < 0 || commitsLeft <= 0) throw new Error('killed')
  }
  const limited = <Handle extends Db | Trx>(handle: Handle) =>
    handle.withPlugin({
      transformQuery: ({ node }) => {
        countDown()
        return node
      },
      transformResult: async ({ result }) => result,
    }) as Handle
  return {
    ...database,
    db: limited(database.db),
    transaction: async (work) => {
      countDown()
      const done = await database.transaction((trx) => work(limited(trx)))
      commitsLeft -= 1
      countDown()
      return done
    },
  }
}

/** Every second kill comes after a commit without an answer, the others after some statement. */
function momentOf(kill: number): { statements?: number; commits?: number } {
  if (kill % 2 === 0) return { commits: 1 + ((kill / 2) % 8) }
  return { statements: 3 + ((kill * 29) % 260) }
}

type Count = { qr: string }
/** Counts that were answered with success, by closing. */
const answered: { id: string; qr: string }[] = []
const tally = { opened: 0, answeredAgain: 0, refused: 0, unanswered: 0 }
let counts = 0

/** Sends a request with a unique count, and records its answer. */
async function send(
  by: TestService,
  declare: (by: TestService, declared: Count) => ReturnType<typeof openClosing>,
): Promise<string | undefined> {
  counts += 1
  const qr = counts
  const declared = { qr: `${qr},00` }
  const answer = await declare(by, declared).catch(() => undefined)
  if (!answer || answer.statusCode >= 500) {
    tally.unanswered += 1
    return undefined
  }
  if (answer.statusCode === 409) {
    expect(answer.json().code).toMatch(/^CLOSING_(OVERLAPS|GAP|SIGNED)$/)
    tally.refused += 1
    return undefined
  }
  expect([200, 202], answer.body).toContain(answer.statusCode)
  if (answer.statusCode === 202) tally.opened += 1
  else tally.answeredAgain += 1
  answered.push({ id: answer.json().id, qr: `${qr}.00` })
  return answer.json().id
}

/** A request for a span, sent with a count. */
const opens = (body: object) => (by: TestService, declared: Count) =>
  openClosing(by, till, { ...body, declared })
const spanFrom = (fromMs: number, hours: number) => ({
  business_day: undefined,
  from: new Date(fromMs).toISOString(),
  to: new Date(fromMs + hours * hourMs).toISOString(),
})

type Entry = {
  action: string
  resource_id: string | null
  metadata: { from?: string; to?: string; before?: Count | string; declared?: Count }
}

/** The audit entries of each closing lead to its state, and contain every count that was answered. */
function expectAudited(rows: readonly ClosingRow[], entries: readonly Entry[]): void {
  const logs = Map.groupBy(entries, ({ resource_id: id }) => id)
  expect([...logs.keys()].toSorted()).toEqual(rows.map(({ id }) => id).toSorted())
  for (const row of rows) {
    const [opened, ...later] = logs.get(row.id) ?? []
    expect(opened?.action).toBe('closing.opened')
    let { to, declared } = opened?.metadata ?? {}
    expect(opened?.metadata.from).toBe(row.from_at.toISOString())
    let signatures = 0
    for (const { action, metadata } of later) {
      if (action === 'closing.extended') {
        expect(metadata.before).toBe(to)
        to = metadata.to
      } else if (action === 'closing.counted') {
        expect(metadata.before).toEqual(declared)
        declared = metadata.declared
      } else {
        expect(action).toBe('closing.signed')
        signatures += 1
      }
    }
    expect(to).toBe(row.to_at.toISOString())
    expect(Number(declared?.qr) * 100).toBe(row.declared.qr)
    expect(signatures).toBe(row.state === 'signed' ? 1 : 0)
  }
  const counted = new Set(
    entries.map(({ resource_id: id, metadata }) => `${id} ${metadata.declared?.qr}`),
  )
  for (const { id, qr } of answered) expect(counted).toContain(`${id} ${qr}`)
}

const listEntries = async () =>
  (await service.database.db
    .selectFrom('activity_log')
    .select(['action', 'resource_id', 'metadata'])
    .where('action', 'like', 'closing.%')
    .where('status', '=', 'success')
    .orderBy('seq')
    .execute()) as Entry[]

test('kills while two processes open, count and sign spans leave no overlap and no gap, and lose no count', async () => {
  const signed = new Map<string, string>()
  const check = async () => {
    const rows = await listRows(service, till)
    expectContinuousSpans(rows)
    expectAudited(rows, await listEntries())
    for (const row of rows) {
      if (row.state !== 'signed') continue
      expect(JSON.stringify(row)).toBe(signed.get(row.id) ?? JSON.stringify(row))
      signed.set(row.id, JSON.stringify(row))
    }
  }

  for (let kill = 0; kill < kills; kill += 1) {
    // The leases of the killed process expire, and several closings of a day are opened.
    service.clock.advance(61_000 + ((kill * 37) % 300) * minuteMs)
    if (kill % 3 === 0) await sell(service, till, `K-${kill}`)
    if (kill % 2 === 0) await service.paymentWatch.watchOnce()
    const killed = await startTestService({
      twinOf: service,
      database: killedAfter(service.database, momentOf(kill)),
    }).catch(() => undefined)
    if (killed) {
      const place = kill % 4 === 3 ? { caja_id: undefined, sucursal_id: 'SUC-1' } : {}
      const ofPlace = (await listRows(service, till)).filter(
        ({ caja_id: box }) => (box === null) === 'sucursal_id' in place,
      )
      const nowMs = service.clock.now().getTime()
      const endMs = ofPlace.at(-1)?.to_at.getTime() ?? nowMs - 3 * hourMs
      const laterMs = Math.min(endMs + hourMs, nowMs - minuteMs)
      const day = { ...place, business_day: today(service) }
      const ids = await Promise.all([
        send(killed, opens({ ...place, ...spanFrom(endMs, 1) })),
        send(service, opens({ ...place, ...spanFrom(endMs, 2) })),
        send(killed, opens(day)),
        send(service, opens({ ...place, ...spanFrom(endMs - hourMs, 2) })),
        send(killed, opens({ ...place, ...spanFrom(laterMs, 3) })),
        send(service, opens(day)),
        ...ofPlace
          .filter(({ state }) => state !== 'signed')
          .slice(0, 1 + (kill % 3))
          .map(({ id }) =>
            sign(killed, id)
              .then(() => id)
              .catch(() => undefined),
          ),
      ])
      const watched = killed.paymentWatch.watchOnce().catch(() => undefined)
      for (const id of new Set(ids)) {
        if (id === undefined) continue
        await send(killed, (by, declared) =>
          call(by, { url: `/closings/${id}/count`, token: till.key, body: { declared } }),
        )
      }
      await watched
      await killed.stop().catch(() => undefined)
    }
    await check()
  }

  for (let round = 0; round < 3; round += 1) await watchAfter(service, 11 * minuteMs)
  await check()
  const rows = await listRows(service, till)
  const open = rows.filter(({ state }) => state === 'open' || state === 'checking')
  expect(open.map(({ number, reason }) => ({ number, reason }))).toEqual([])
  for (const { declared, totals } of rows) {
    const compared = totals?.media.find(({ medium }) => medium === 'qr')
    expect(compared?.declaredCents).toBe(declared.qr)
  }
  const verified = await call(service, { url: '/admin/activity/verify', token: adminToken })
  expect(verified.json()).toMatchObject({ valid: true })
  const answeredCounts = new Set(answered.map(({ qr }) => qr))
  const unansweredEntries = (await listEntries()).filter(
    ({ metadata: { declared } }) => declared && !answeredCounts.has(declared.qr),
  )
  expect(unansweredEntries.length).toBeGreaterThan(kills / 50)
  expect(signed.size).toBeGreaterThan(kills / 10)
  expect(Math.min(...Object.values(tally))).toBeGreaterThan(kills / 10)
  process.stdout.write(
    `${kills} kills on ${service.database.engine}: ${rows.length} closings of 2 places, ${signed.size} signed; ` +
      `answers: ${tally.opened} opened, ${tally.answeredAgain} again, ${tally.refused} refused, ${tally.unanswered} lost, of which ${unansweredEntries.length} were committed; ` +
      'no overlap, no gap, no count lost, every closing has its result, the audit log agrees\n',
  )
}, 600_000)
