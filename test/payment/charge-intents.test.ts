import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { renewConnection } from '../../src/payments/connection/oauth-tokens.ts'
import { serviceActor } from '../../src/payments/request-context.ts'
import { findConnection } from '../../src/repositories/connection/connection-queries.ts'
import { findChargeStart, insertCharge } from '../../src/repositories/orders/charge-intents.ts'
import { newAccount, openOwnShop, orderRow, ordersAtProvider } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  asAdmin,
  changeAccount,
  charge,
  createStore,
  enrol,
  pairTerminal,
  type Till,
} from '../support/till.ts'

/** Changes between the read before a charge and its intent: no charge is made on what no longer holds. */
let service: TestService
let duplicate: TestService
beforeAll(async () => {
  service = await startTestService()
  duplicate = await startTestService({ twinOf: service })
})
afterAll(async () => {
  await duplicate.stop()
  await service.stop()
})

/** Delays the next charge of `service` after its first read until `meanwhile` has ended. */
function delayAfterRead(meanwhile: () => Promise<unknown>): void {
  const { terminals } = service.deps.provider
  const { list } = terminals
  terminals.list = async (...call) => {
    terminals.list = list
    const found = await list(...call)
    await meanwhile()
    return found
  }
}

async function openTwoBoxes(client: string): Promise<Till> {
  const till = await enrol(service, client, newAccount())
  const created = await createStore(service, till, { id: 'SUC-1', boxes: ['A', 'B'] })
  expect(created.statusCode, created.body).toBe(201)
  for (const box of ['A', 'B']) await pairTerminal(service, till, box)
  return till
}

type Answer = Awaited<ReturnType<typeof charge>>

const outcome = (answer: Answer) => [answer.statusCode, answer.json().code, answer.json().outcome]

test('a charge without a key and a concurrent equal one with a key are one charge', async () => {
  const keyed: Record<string, string> = { 'idempotency-key': randomUUID() }
  const pairs: [Record<string, string>, Record<string, string>][] = [
    [{}, keyed],
    [{}, {}],
  ]
  for (const [first, second] of pairs) {
    const till = await openOwnShop(service, `equal ${randomUUID()}`)
    let other: Answer | undefined
    delayAfterRead(async () => {
      other = await charge(duplicate, till, { reference: 'SALE', headers: second })
    })
    const answer = await charge(service, till, { reference: 'SALE', headers: first })
    expect(other?.statusCode, other?.body).toBe(201)
    expect([200, 201]).toContain(answer.statusCode)
    expect(answer.json().order_id).toBe(other?.json().order_id)
    expect(ordersAtProvider(service, till)).toHaveLength(1)
  }
})

test('one key used for two boxes at once is one charge, and the other request is IDEMPOTENCY_CONFLICT', async () => {
  const till = await openTwoBoxes('one key')
  const headers = { 'idempotency-key': randomUUID() }
  let other: Answer | undefined
  delayAfterRead(async () => {
    other = await charge(duplicate, till, { reference: 'K', box: 'B', headers })
  })
  const answer = await charge(service, till, { reference: 'K', box: 'A', headers })
  expect(other?.statusCode, other?.body).toBe(201)
  expect(outcome(answer)).toEqual([409, 'IDEMPOTENCY_CONFLICT', 'not_charged'])
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('two boxes that charge one reference at once send two references to the provider', async () => {
  const till = await openTwoBoxes('one text')
  delayAfterRead(() => charge(duplicate, till, { reference: 'TEXT', box: 'B' }))
  expect((await charge(service, till, { reference: 'TEXT', box: 'A' })).statusCode).toBe(201)
  const references = ordersAtProvider(service, till).map((order) => order.external_reference)
  expect(references.toSorted()).toEqual(['TEXT', 'TEXT-2'])
})

test('a reference that another client of the account has sent is not sent again', async () => {
  const till = await openOwnShop(service, 'first of two')
  const other = await enrol(service, 'second of two', String(till.mpUserId))
  const created = await createStore(service, other, { id: 'SUC-2', boxes: ['CAJA-2'] })
  expect(created.statusCode, created.body).toBe(201)
  await pairTerminal(service, other, 'CAJA-2')
  expect((await charge(service, till, { reference: 'SHARED' })).statusCode).toBe(201)
  const second = await charge(service, other, { reference: 'SHARED', box: 'CAJA-2' })
  expect(second.statusCode, second.body).toBe(201)
  const references = ordersAtProvider(service, till).map((order) => order.external_reference)
  expect(new Set(references).size).toBe(2)
})

/** Reads the box of a new shop once; the function begins a charge based on that read, or on a changed copy of the box. */
async function readBoxOnce(name: string) {
  const till = await openOwnShop(service, name)
  const { order_id: known } = (await charge(service, till, { reference: 'R' })).json()
  const row = await orderRow(service, known)
  const { db } = service.database
  const route = 'POST /orders'
  const { pos, connection } = await findChargeStart(db, row.client, {
    ...{ route, key: undefined, byContent: false, cajaId: row.caja_id },
    ...{ externalReference: 'S', amountCents: row.amount_cents },
  })
  if (!pos || !connection) throw new Error('the shop is open')
  const begin = async (reference: string, readPos = pos) => {
    const intent = {
      ...row,
      ...{ id: randomUUID(), request_key: randomUUID(), creation: 'intent' as const },
      ...{ external_reference: reference, mp_external_reference: reference },
    }
    const link = { route, key: undefined, fingerprint: reference }
    return (await insertCharge(db, intent, readPos, connection, link)).order
  }
  return { pos, begin }
}

test('of two charges that read their box at the same time the later one is not begun', async () => {
  const { begin } = await readBoxOnce('same time')
  expect(await begin('S')).toMatchObject({ external_reference: 'S' })
  expect(await begin('T')).toBeUndefined()
})

test('a charge is not begun when a charge of its box was refused after the read', async () => {
  const { pos, begin } = await readBoxOnce('denied meanwhile')
  expect(await begin('S', { ...pos, denied_charges: pos.denied_charges - 1 })).toBeUndefined()
  expect(await begin('S')).toMatchObject({ external_reference: 'S' })
})

test('a charge whose box is removed meanwhile is not begun', async () => {
  const till = await openOwnShop(service, 'removed')
  delayAfterRead(() =>
    service.database.db
      .updateTable('pos')
      .set({ state: 'deleting' })
      .where('client', '=', asClientName(till.client))
      .execute(),
  )
  expect(outcome(await charge(service, till, { reference: 'R' }))).toEqual([
    404,
    'NOT_FOUND',
    'not_charged',
  ])
  expect(ordersAtProvider(service, till)).toEqual([])
})

test('a charge whose client is connected to another account meanwhile is not begun', async () => {
  const till = await openOwnShop(service, 'moved')
  delayAfterRead(() => changeAccount(duplicate, till, '91919191'))
  const answer = await charge(service, till, { reference: 'R' })
  expect(outcome(answer)).toEqual([409, 'ACCOUNT_MISMATCH', 'not_charged'])
  expect(ordersAtProvider(service, till)).toEqual([])
  expect(ordersAtProvider(service, { mpUserId: 91919191 })).toEqual([])
})

test('a charge whose client logs out meanwhile is not begun', async () => {
  const till = await openOwnShop(service, 'left')
  const name = encodeURIComponent(till.client)
  delayAfterRead(() => asAdmin(duplicate, { method: 'POST', url: `/oauth/logout?client=${name}` }))
  const answer = await charge(service, till, { reference: 'R' })
  expect([answer.statusCode, answer.json().outcome]).toEqual([409, 'not_charged'])
  expect(ordersAtProvider(service, till)).toEqual([])
})

test('a charge whose tokens are renewed meanwhile is sent with the new token', async () => {
  const till = await openOwnShop(service, 'renewed')
  const renewals: string[] = []
  const { oauth, orders } = service.deps.provider
  const { refresh } = oauth
  oauth.refresh = async (...call) => {
    const grant = await refresh(...call)
    renewals.push(grant.accessToken)
    return grant
  }
  const { create } = orders
  const used: string[] = []
  orders.create = (token, ...call) => {
    used.push(token)
    return create(token, ...call)
  }
  delayAfterRead(() => renew(till))
  const answer = await charge(service, till, { reference: 'R' })
  oauth.refresh = refresh
  orders.create = create
  expect(answer.statusCode, answer.body).toBe(201)
  expect(renewals).toHaveLength(1)
  expect(used).toEqual(renewals)
  expect(await orderRow(service, answer.json().order_id)).toMatchObject({ creation: 'confirmed' })
})

async function renew({ client }: Till): Promise<void> {
  const name = asClientName(client)
  const before = await findConnection(service.database.db, name)
  await renewConnection(service.deps, name, before?.version ?? 0, serviceActor(service.clock.now()))
}
