import { once } from 'node:events'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { expect, test } from 'vitest'
import { openWorld } from './flow-world.ts'

/** More than it takes to meet every order in which this thread may hear of a request and of its end. */
const givenUp = 300

test('a request that was given up before it was read is late, however busy its receiver is', async () => {
  const world = await openWorld({ seed: 20, flows: 1, filesDir: tmpdir(), note: () => undefined })
  world.calm()
  const [lane] = world.lanes
  if (!lane) throw new Error('there is no lane')
  const { name, truth, web } = lane
  const path = `/${name}/web/items/i0`
  const old = truth.get('i0')
  truth.put('i0', 'newer')
  const newer = await fetch(`${world.places.url}${path}`, {
    ...{ method: 'PUT', headers: { 'idempotency-key': 'newer' } },
    body: JSON.stringify(truth.get('i0')),
  })
  expect(newer.status).toBe(200)
  const { hostname, port } = new URL(world.places.url)
  const text = JSON.stringify(old)
  for (let time = 1; time <= givenUp; time += 1) {
    const caller = connect(Number(port), hostname)
    await once(caller, 'connect')
    const head = [`PUT ${path} HTTP/1.1`, 'host: x', 'idempotency-key: old']
    caller.write([...head, `content-length: ${text.length}`, '', text].join('\r\n'))
    // Both lie in the buffers of this machine before the receiver, in the same thread, reads the first.
    caller.destroy()
  }
  await expect.poll(() => web.ledger.counts.arrivals).toBe(1 + givenUp)
  expect(web.ledger.violations).toEqual([])
  expect(web.ledger.counts.overtaken).toBe(givenUp)
  // Nor is it done behind the newer one: whoever gave it up has gone on.
  expect(web.ledger.differences().filter((what) => what.startsWith('i0:'))).toEqual([])
  await world.close()
})
