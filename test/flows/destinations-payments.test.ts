import { expect, test } from 'vitest'
import type { PaymentsOutcome, PaymentsPort } from '../../src/flows/destinations/payments-port.ts'
import {
  openPaymentsPos,
  openPaymentsStores,
} from '../../src/flows/destinations/payments-stores.ts'
import type { DeliveryResult } from '../../src/flows/types.ts'
import { sentenceOf } from '../../src/texts/reason.ts'
import { job, never } from './destinations-job.ts'

const location = {
  street_name: 'Av. Corrientes',
  street_number: '1234',
  city_name: 'Balvanera',
  state_name: 'Capital Federal',
  latitude: -34.6037,
  longitude: -58.3816,
}
const store = {
  external_id: 'SUC-1',
  name: 'Centro',
  location,
  pos: [{ external_id: 'CAJA-1', name: 'Caja 1' }],
}

function setup(outcome: PaymentsOutcome = { ok: true }, mayDeleteStores = false) {
  const calls: unknown[][] = []
  const note =
    (name: string) =>
    async (...given: unknown[]) => {
      calls.push([name, ...given])
      return outcome
    }
  const port: PaymentsPort = {
    upsertStore: note('upsertStore'),
    addPos: note('addPos'),
    deletePos: note('deletePos'),
    deleteStore: note('deleteStore'),
  }
  return {
    calls,
    stores: openPaymentsStores({ client: 'acme', mayDeleteStores }, port),
    pos: openPaymentsPos('acme', port),
  }
}

const reasonOf = (result: DeliveryResult) => (result.ok ? '' : sentenceOf(result.why, 'en'))

test('a store is sent to the payment side with its boxes, in the fields of that side', async () => {
  const { stores, calls } = setup()
  expect(await stores.deliver(job({ body: store }), never)).toEqual({ ok: true })
  expect(calls).toEqual([
    [
      'upsertStore',
      'acme',
      {
        externalId: 'SUC-1',
        name: 'Centro',
        location: {
          streetName: 'Av. Corrientes',
          streetNumber: '1234',
          cityName: 'Balvanera',
          stateName: 'Capital Federal',
          latitude: -34.6037,
          longitude: -58.3816,
          reference: null,
        },
        pos: [{ externalId: 'CAJA-1', name: 'Caja 1' }],
      },
    ],
  ])
})

test('an invalid store is refused without a request, and the message shows both sides', async () => {
  const { stores, calls } = setup()
  const body = {
    ...store,
    external_id: 12,
    location: { ...location, latitude: '-34,6', streetName: 'x' },
  }
  const result = await stores.deliver(job({ body }), never)
  expect(result).toMatchObject({ ok: false, retryable: false, outage: false })
  const reason = reasonOf(result)
  expect(reason).toMatch(/external_id: must be a text, not a number, got 12/)
  expect(reason).toMatch(/location\.latitude: must be a number, not a text, got "-34,6"/)
  expect(reason).toMatch(/streetName/)
  expect(calls).toEqual([])
})

test('the message about a store with one box that JSONata made an object says what to do', async () => {
  const { stores } = setup()
  const result = await stores.deliver(job({ body: { ...store, pos: store.pos[0] } }), never)
  expect(reasonOf(result)).toMatch(/pos: .*\[ \].*got an object \(external_id, name\)/)
})

test('a box that is twice in a store is refused', async () => {
  const { stores, calls } = setup()
  const pos = [...store.pos, { external_id: 'CAJA-1', name: 'Otra' }]
  expect(await stores.deliver(job({ body: { ...store, pos } }), never)).toMatchObject({ ok: false })
  expect(calls).toEqual([])
})

test('no body, a list and a text are refused, not thrown', async () => {
  const { stores, pos } = setup()
  for (const body of [undefined, null, [], 'x', 3]) {
    for (const destination of [stores, pos]) {
      const result = await destination.deliver(job({ body }), never)
      expect(result).toMatchObject({ ok: false, retryable: false })
    }
  }
})

test('a box that waits is not sent when the service stops', async () => {
  const gate = Promise.withResolvers<void>()
  const begun: string[] = []
  const unused = () => Promise.reject(new Error('not asked'))
  const port: PaymentsPort = {
    upsertStore: unused,
    deletePos: unused,
    deleteStore: unused,
    addPos: async (_client, _store, [box]) => {
      begun.push(box?.externalId ?? '')
      await gate.promise
      return { ok: true }
    },
  }
  const pos = openPaymentsPos('acme', port)
  const body = (external_id: string) => ({ store_external_id: 'S', external_id, name: 'Caja' })
  const stop = new AbortController()
  const results = Promise.all([
    pos.deliver(job({ body: body('1') }), never),
    pos.deliver(job({ body: body('2') }), stop.signal),
    pos.deliver(job({ body: body('3') }), AbortSignal.abort(new DOMException('', 'TimeoutError'))),
  ])
  stop.abort(new Error('the service stops'))
  gate.resolve()
  expect(await results).toMatchObject([{ ok: true }, { ok: false, retryable: true }, { ok: true }])
  expect(begun).toEqual(['1', '3'])
})

test('the outcome of the payment side is returned unchanged', async () => {
  const outcome = {
    ok: false,
    retryable: true,
    why: { code: 'PAYMENTS_REFUSED', data: { what: { code: 'SERVICE_UNAVAILABLE' } } },
    outage: true,
  } as const
  const { stores } = setup({ ...outcome, retryAfterSeconds: 7 })
  const result = await stores.deliver(job({ body: store }), never)
  expect(result).toEqual({ ...outcome, retryAfterSeconds: 7 })
})

test('a store is deleted only when the flow says so twice', async () => {
  const deletion = job({ kind: 'delete', body: { external_id: 'SUC-1' } })
  const careful = setup({ ok: true }, false)
  expect(await careful.stores.deliver(deletion, never)).toMatchObject({
    ok: false,
    retryable: false,
    why: { code: 'NO_STORE_DELETE' },
  })
  expect(careful.calls).toEqual([])
  const allowed = setup({ ok: true }, true)
  expect(await allowed.stores.deliver(deletion, never)).toEqual({ ok: true })
  expect(allowed.calls).toEqual([['deleteStore', 'acme', 'SUC-1']])
})

test('a box is added to its store and deleted from it', async () => {
  const { pos, calls } = setup()
  const body = { store_external_id: 'SUC-1', external_id: 'CAJA-1', name: 'Caja 1' }
  await pos.deliver(job({ body }), never)
  await pos.deliver(job({ kind: 'delete', body: { ...body, name: undefined } }), never)
  expect(calls).toEqual([
    ['addPos', 'acme', 'SUC-1', [{ externalId: 'CAJA-1', name: 'Caja 1' }]],
    ['deletePos', 'acme', 'SUC-1', 'CAJA-1'],
  ])
})

test('a box without its store can be neither added nor deleted', async () => {
  const { pos, calls } = setup()
  for (const kind of ['upsert', 'delete'] as const) {
    const result = await pos.deliver(
      job({ kind, body: { external_id: 'CAJA-1', name: 'x' } }),
      never,
    )
    expect(reasonOf(result)).toContain('store_external_id')
  }
  expect(calls).toEqual([])
})
