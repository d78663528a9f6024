import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { jsonFlow, startTarget, startTestFlows } from '../support/flows.ts'
import { startTestService } from '../support/service.ts'
import { recordStatements } from '../support/statements.ts'

// An idle service costs little: it asks the database with one statement for each side what is due, however many flows and
// kinds of work there are.

/** How many different statements that match `pattern` are sent without a request while `look` is sent four times. */
async function kindsSent(look: RegExp, pattern: RegExp): Promise<number> {
  const sent: string[] = []
  while (sent.filter((one) => look.test(one)).length < 4) {
    const { background } = await recordStatements(() => wait(20))
    sent.push(...background)
  }
  return new Set(sent.filter((one) => pattern.test(one))).size
}

test('the idle payment side leases nothing and looks with one statement', {
  tags: ['long'],
}, async () => {
  const service = await startTestService({ env: { SWEEP_INTERVAL_MS: '100' } })
  try {
    service.sweeper.start()
    // What is kept for so long is deleted at the start.
    await expect
      .poll(() => kindsSent(/as "statusChecks"/, /webhook_log|order_operations|"orders"/))
      .toBe(1)
  } finally {
    await service.stop()
  }
})

test('idle flows are looked at together, and what becomes due is sent', {
  tags: ['long'],
}, async () => {
  const target = await startTarget()
  const names = ['one', 'two', 'three']
  const flows = await startTestFlows({
    files: Object.fromEntries(
      names.map((name) => [`${name}.flow.yaml`, jsonFlow(name, target.url)]),
    ),
  })
  try {
    for (const name of names) {
      await flows.write(`${name}.json`, [{ id: 'x', price: 1 }])
      await flows.flows.sync(name, { force: true })
    }
    await flows.delivered()
    await expect.poll(() => kindsSent(/from unnest\(.*as target/s, /deliveries/)).toBe(1)
    let refusals = 1
    target.answer(() => (refusals-- > 0 ? 503 : 200))
    await flows.write('two.json', [{ id: 'x', price: 2 }])
    await flows.flows.sync('two', { force: true })
    await flows.ended('two')
    const ofTwo = target.received.filter(({ path }) => path === '/two/x')
    expect(ofTwo).toHaveLength(3)
  } finally {
    await flows.stop()
    await target.close()
  }
})
