import { expect, test } from 'vitest'
import { jsonFlow, startTarget, startTestFlows } from '../support/flows.ts'

test('after a restart the flow whose last poll is oldest is polled before the one polled last', async () => {
  const names = Array.from({ length: 12 }, (_, index) => `flow-${String(index).padStart(2, '0')}`)
  const target = await startTarget()
  const files = names.flatMap((name) => [
    [`${name}.flow.yaml`, jsonFlow(name, target.url, { startPaused: false })],
    [`${name}.json`, []],
  ])
  const flows = await startTestFlows({ files: Object.fromEntries(files) })
  const { db } = flows.service.database
  const polled = async () =>
    (await db.selectFrom('flow_polls').select('flow').orderBy('id').execute()).map(
      ({ flow }) => flow,
    )
  await expect.poll(polled).toHaveLength(names.length)
  // The flows ask for their turn in the order of their files: of those that wait the first was polled last.
  for (const [index, name] of names.entries()) {
    const last_poll_at = new Date(flows.service.clock.now().getTime() - (index + 1) * 60_000)
    await db.updateTable('flow_state').set({ last_poll_at }).where('flow', '=', name).execute()
  }
  const restarted = await flows.restart()
  try {
    await expect.poll(polled).toHaveLength(2 * names.length)
    const again = (await polled()).slice(names.length)
    expect(again.indexOf('flow-11')).toBeLessThan(again.indexOf('flow-02'))
  } finally {
    await restarted.stop()
    await target.close()
  }
})
