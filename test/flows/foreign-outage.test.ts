import { expect, onTestFinished, test } from 'vitest'
import { startTarget, startTestFlows } from '../support/flows.ts'

/** What an outage without answers of the API costs: neither a failed delivery nor a flood of requests. */
const page = '<!DOCTYPE html><html><head><title>Forbidden</title></head></html>'
const soon = { timeout: 8_000, interval: 20 }

async function serve(count: number, destination: Record<string, unknown> = {}) {
  const target = await startTarget()
  const flows = await startTestFlows()
  onTestFinished(async () => {
    await flows.stop()
    await target.close()
  })
  const write = async (price: number) => {
    const lines = Array.from({ length: count }, (_, index) =>
      JSON.stringify({ sku: `S-${index}`, price: index === 3 ? 0 : price }),
    )
    await flows.write('items.ndjson', `${lines.join('\n')}\n`)
  }
  await write(0)
  await flows.write('shop.flow.yaml', {
    ...{ version: 1, name: 'shop', pollInterval: '1h', allowPrivateNetwork: true },
    source: { type: 'file', path: `${flows.dir}/items.ndjson`, format: 'ndjson', settle: '0s' },
    item: { key: 'sku' },
    destinations: [
      {
        ...{ name: 'web', type: 'http', request: { method: 'PUT', url: `${target.url}/{pk}` } },
        retry: { attempts: 3, initial: '100ms', max: '100ms', jitter: 0 },
        ...destination,
      },
    ],
  })
  const start = async () => {
    expect((await flows.call('POST', '/flows/reload')).json()).toMatchObject({ problems: [] })
    expect((await flows.call('POST', '/sync/shop')).statusCode).toBeLessThan(300)
  }
  const failures = async () =>
    (await flows.call('GET', '/flow/shop/failures')).json().failures as {
      items: number
      error: string
    }[]
  return { target, flows, start, write, failures }
}

test.each([200, 403])(
  'while a host answers %i with a page to everything, nothing fails or counts as delivered, and few requests are sent',
  { tags: ['long'] },
  async (status) => {
    const { target, flows, start, failures } = await serve(300)
    target.answer(status, { 'content-type': 'text/html' }, () => page)
    await start()
    const reasons = async () => {
      const { db } = flows.service.database
      const rows = await db.selectFrom('deliveries').select(['attempts', 'last_error']).execute()
      const attempted = rows.filter(({ last_error }) => last_error !== null)
      return new Set(attempted.map(({ attempts, last_error }) => `${attempts} ${last_error}`))
    }
    await expect.poll(() => target.received.length, soon).toBeGreaterThanOrEqual(20)
    await expect
      .poll(reasons, soon)
      .toEqual(new Set([`0 HTTP ${status} with an HTML page: it is not an answer of this API`]))
    expect(target.received.length).toBeLessThan(30)
    expect(await failures()).toEqual([])

    target.answer(200)
    expect((await flows.call('POST', '/flow/shop/try')).statusCode).toBe(200)
    await flows.ended()
    expect(await failures()).toEqual([])
    expect(new Set(target.received.map(({ path }) => path)).size).toBe(300)
  },
)

test('a page for one item alone, while others are accepted, fails that item', {
  tags: ['long'],
}, async () => {
  const { target, flows, start, write, failures } = await serve(20, { concurrency: 1 })
  target.answer(
    ({ path }) => (path === '/S-3' ? 403 : 200),
    {},
    ({ path }) => (path === '/S-3' ? page : ''),
  )
  await start()
  let price = 0
  const others = async () => {
    flows.service.clock.advance(1_000)
    price += 1
    await write(price)
    await flows.call('POST', '/sync/shop')
    await flows.delivered()
    return (await failures()).map(({ items, error }) => ({ items, error }))
  }
  await expect
    .poll(others, soon)
    .toEqual([{ items: 1, error: expect.stringContaining('it is not an answer of this API') }])
  expect(target.received.filter(({ path }) => path === '/S-3').length).toBeLessThan(8)
})
