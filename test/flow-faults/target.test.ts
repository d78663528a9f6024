import { once } from 'node:events'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { expect, test } from 'vitest'
import { openExternalSystems } from './external-systems.ts'

/** Enough to meet every order in which this thread may receive a request and its end. */
const givenUp = 300

test('a request that its sender gave up before it was read counts as late, also on a busy receiver', async () => {
  const systems = await openExternalSystems({
    seed: 20,
    flows: 1,
    filesDir: tmpdir(),
    countEvent: () => undefined,
  })
  systems.stopFaults()
  const [testFlow] = systems.testFlows
  if (!testFlow) throw new Error('there is no testFlow')
  const { name, sourceHistory, web } = testFlow
  const path = `/${name}/web/items/i0`
  const old = sourceHistory.get('i0')
  sourceHistory.put('i0', 'newer')
  const newer = await fetch(`${systems.endpoints.url}${path}`, {
    ...{ method: 'PUT', headers: { 'idempotency-key': 'newer' } },
    body: JSON.stringify(sourceHistory.get('i0')),
  })
  expect(newer.status).toBe(200)
  const { hostname, port } = new URL(systems.endpoints.url)
  const text = JSON.stringify(old)
  for (let time = 1; time <= givenUp; time += 1) {
    const caller = connect(Number(port), hostname)
    await once(caller, 'connect')
    const head = [`PUT ${path} HTTP/1.1`, 'host: x', 'idempotency-key: old']
    caller.write([...head, `content-length: ${text.length}`, '', text].join('\r\n'))
    // Both are in the buffers of this machine before the receiver, in the same thread, reads the first.
    caller.destroy()
  }
  await expect.poll(() => web.ledger.counts.arrivals).toBe(1 + givenUp)
  expect(web.ledger.violations).toEqual([])
  expect(web.ledger.counts.overtaken).toBe(givenUp)
  // Nor is it applied after the newer one.
  expect(web.ledger.differences().filter((what) => what.startsWith('i0:'))).toEqual([])
  await systems.close()
})
