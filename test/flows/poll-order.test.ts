import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'
import { expect, onTestFinished, test } from 'vitest'
import { jsonFlow, startTestFlows } from '../support/flows.ts'

/** The number of polls that begin at once, in the order of the requests. */
const places = availableParallelism()

/** A source whose answers wait for `open`. */
async function startSource() {
  const asked: string[] = []
  const waiting: ServerResponse[] = []
  let isOpen = true
  const server = createServer((request, response) => {
    asked.push(String(request.url).slice(1))
    if (isOpen) response.end('[]')
    else waiting.push(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    hold: () => {
      isOpen = false
    },
    open: () => {
      isOpen = true
      for (const response of waiting.splice(0)) response.end('[]')
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

test('after a restart the flow with the oldest last poll is polled before the one polled last', {
  tags: ['long'],
}, async () => {
  const names = Array.from(
    { length: places + 10 },
    (_, index) => `flow-${String(index).padStart(2, '0')}`,
  )
  const source = await startSource()
  onTestFinished(source.close)
  const files = names.map((name) => {
    const flow = { startPaused: false, source: { type: 'http', url: `${source.url}/${name}` } }
    return [`${name}.flow.yaml`, jsonFlow(name, source.url, flow)]
  })
  const flows = await startTestFlows({ files: Object.fromEntries(files) })
  const { db } = flows.service.database
  const polls = () => db.selectFrom('flow_polls').select('flow').execute()
  await expect.poll(polls).toHaveLength(names.length)
  // The flows request a slot about in the order of their files; the first was polled last.
  for (const [index, name] of names.entries()) {
    const last_poll_at = new Date(flows.service.clock.now().getTime() - (index + 1) * 60_000)
    await db.updateTable('flow_state').set({ last_poll_at }).where('flow', '=', name).execute()
  }
  // No poll ends before all flows have requested a slot.
  source.hold()
  const restarted = await flows.restart()
  await expect.poll(() => source.asked).toHaveLength(2 * names.length)
  const again = source.asked.slice(names.length)
  source.open()
  await restarted.stop()
  const waited = again.slice(places)
  const [newest = ''] = waited.toSorted()
  const oldest = waited.toSorted().at(-1) ?? ''
  expect(waited.indexOf(oldest)).toBeLessThan(waited.indexOf(newest))
})
