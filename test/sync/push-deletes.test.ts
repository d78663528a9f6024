import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { nextRead } from '../../src/repositories/flows/flow-reads.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** What an ERP says is gone stays gone, whatever older reads of the source still have of it. */
let source: Server
let target: TestTarget
let flows: TestFlows
let items: { id: string; price: number }[] = []
/** Done before the source answers. */
let meanwhile: (() => Promise<unknown>) | undefined

beforeAll(async () => {
  target = await startTarget()
  source = createServer(async (request, response) => {
    const id = new URL(request.url ?? '', 'http://x').searchParams.get('id')
    // As it is when the read begins.
    const found = JSON.stringify(id === null ? items : items.filter((one) => one.id === id))
    const work = meanwhile
    meanwhile = undefined
    await work?.()
    response.writeHead(200, { 'content-type': 'application/json' }).end(found)
  })
  await new Promise<void>((resolve) => source.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(source.address() as AddressInfo).port}/`
  const flow = jsonFlow('shop', target.url, {
    startPaused: false,
    source: { type: 'http', url, item: { url: `${url}?id={pk}` } },
    deletes: { mode: 'delete', guard: { maxPercent: 100 } },
  }) as { destinations: object[] }
  const destinations = flow.destinations.map((one) => ({
    ...one,
    delete: { url: `${target.url}/shop/{pk}` },
  }))
  flows = await startTestFlows({ files: { 'shop.flow.yaml': { ...flow, destinations } } })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
  await new Promise((resolve) => source.close(resolve))
})
beforeEach(async () => {
  items = ['A', 'B'].map((id) => ({ id, price: 1 }))
  await sync()
  await flows.delivered()
  target.received.length = 0
})

const sync = () => flows.call('POST', '/sync/shop')
const remove = async () => {
  items = items.filter(({ id }) => id !== 'A')
  const pushed = await flows.call('POST', '/flow/shop/items', { body: { deletes: ['A'] } })
  expect(pushed.json().deletes).toEqual([{ pk: 'A', status: 'deleted' }])
}
const rowOfA = () =>
  flows.service.database.db
    .selectFrom('deliveries')
    .select('change_number')
    .where('pk', '=', 'A')
    .executeTakeFirstOrThrow()
const sent = async () => {
  await flows.delivered()
  return target.received.map(({ method, path }) => `${method} ${path}`)
}

test('a poll under way that had read it before brings nothing back, and the next one finds it gone', async () => {
  meanwhile = remove
  expect((await sync()).json()).toMatchObject({ changes: 0 })
  await sync()
  expect(await sent()).toEqual(['DELETE /shop/A'])
})

test('a poll under way that had found it changed brings nothing back', async () => {
  items = items.map((one) => ({ ...one, price: 2 }))
  meanwhile = remove
  await sync()
  expect((await sent()).toSorted()).toEqual(['DELETE /shop/A', 'PUT /shop/B'])
})

test.each([
  ['set back by a minute', -60_000],
  // As known to the process that takes the push: the one that polls has not heard of it.
  ['set ahead by a minute', 60_000],
])('nor does it when the clock is %s meanwhile', async (_, byMs) => {
  const { clock } = flows.service
  meanwhile = async () => {
    clock.advance(byMs)
    await remove()
    if (byMs > 0) clock.advance(-byMs)
  }
  await sync()
  if (byMs < 0) clock.advance(-byMs)
  expect(await sent()).toEqual(['DELETE /shop/A'])
})

test('nor one that nobody knew: its delete is to be pushed again when the poll is over', async () => {
  items.push({ id: 'C', price: 1 })
  const removeC = async () => {
    items = items.filter(({ id }) => id !== 'C')
    const pushed = await flows.call('POST', '/flow/shop/items', { body: { deletes: ['C'] } })
    return pushed.json().deletes as { pk: string; status: string; retry?: boolean }[]
  }
  let answer: Awaited<ReturnType<typeof removeC>> = []
  meanwhile = async () => {
    answer = await removeC()
  }
  await sync()
  expect(answer).toMatchObject([{ pk: 'C', status: 'refused', retry: true }])
  expect(await removeC()).toEqual([{ pk: 'C', status: 'deleted' }])
  expect((await sent()).at(-1)).toBe('DELETE /shop/C')
  expect(await removeC()).toEqual([{ pk: 'C', status: 'unchanged' }])
})

test('a sync of the item under way that had read it before reads again', async () => {
  meanwhile = remove
  const synced = await flows.call('POST', '/sync/shop/A')
  expect(synced.json()).toMatchObject({ changed: false })
  expect(await sent()).toEqual(['DELETE /shop/A'])
})

test('a push that began before is refused, and may be sent again', async () => {
  const read = await nextRead(flows.service.database.db)
  await remove()
  const late = await flows.flows.push(
    'shop',
    { items: [{ id: 'A', price: 3 }], deletes: [] },
    read,
    'x',
  )
  expect(late.items).toMatchObject([{ pk: 'A', status: 'refused', retry: true }])
  expect(await sent()).toEqual(['DELETE /shop/A'])
  items.push({ id: 'A', price: 4 })
  await sync()
  expect(await sent()).toEqual(['DELETE /shop/A', 'PUT /shop/A'])
})

test('what was forgotten of an item does not keep its delete from a destination that has it', async () => {
  expect((await flows.call('DELETE', '/reset/shop/A')).statusCode).toBe(200)
  const { change_number: sentAt } = await rowOfA()
  await remove()
  expect(await sent()).toEqual(['DELETE /shop/A'])
  const again = await flows.call('POST', '/flow/shop/items', { body: { deletes: ['A', 'C'] } })
  const unchanged = ['A', 'C'].map((pk) => ({ pk, status: 'unchanged' }))
  expect(again.json()).toMatchObject({ changes: 0, deletes: unchanged })

  items.push({ id: 'A', price: 5 })
  await sync()
  await flows.call('DELETE', '/reset/shop/A')
  const late = await flows.flows.push('shop', { items: [], deletes: ['A'] }, sentAt, 'x')
  expect(late.deletes).toMatchObject([{ pk: 'A', status: 'refused', retry: true }])
  expect(await sent()).toEqual(['DELETE /shop/A', 'PUT /shop/A'])
})
