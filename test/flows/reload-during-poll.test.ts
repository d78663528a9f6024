import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  connectedFlow,
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A source, and a destination, that answers when the test says so. */
let source: {
  url: string
  asked: ServerResponse[]
  bodies: string[]
  places: unknown[]
  server: Server
}
let target: TestTarget
let flows: TestFlows

beforeEach(async () => {
  const asked: ServerResponse[] = []
  const bodies: string[] = []
  const places: unknown[] = []
  const server = createServer(async (request, response) => {
    bodies.push(await text(request))
    places.push(request.headers['x-place'])
    asked.push(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  source = { url: `http://127.0.0.1:${port}`, asked, bodies, places, server }
  target = await startTarget()
  flows = await startTestFlows({
    env: { FLOWS_WORKBENCH: 'true' },
    files: { 'slow.flow.yaml': slow(), 'other.json': [{ id: '1' }] },
  })
  await flows.write('connections.yaml', {
    version: 1,
    connections: {
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the connection
      files: { type: 'folder', path: '${env:DIR}' },
      shop: { type: 'http', url: target.url, allowPrivateNetwork: true },
    },
  })
})
afterEach(async () => {
  source.server.closeAllConnections()
  source.server.close()
  await flows.stop()
  await target.close()
})

function slow(extra: Record<string, unknown> = {}): object {
  return jsonFlow('slow', target.url, {
    source: { type: 'http', url: `${source.url}/items`, items: 'items' },
    ...extra,
  })
}

const answer = (index: number, ...ids: string[]) =>
  source.asked[index]
    ?.setHeader('content-type', 'application/json')
    .end(JSON.stringify({ items: ids.map((id) => ({ id })) }))
const sync = (name = 'slow') => flows.call('POST', `/sync/${name}?force=true`)
const reload = () => flows.call('POST', '/flows/reload')
const asked = (count: number) => expect.poll(() => source.asked.length).toBe(count)
const within = (ms: number, work: Promise<unknown>) =>
  Promise.race([
    work,
    new Promise((_, reject) => setTimeout(() => reject(new Error(`not within ${ms} ms`)), ms)),
  ])

test('a save and a reload wait for no poll, whichever flow they change', {
  tags: ['long'],
}, async () => {
  const running = sync()
  await asked(1)
  const definition = JSON.stringify(connectedFlow('other', { startPaused: false }))
  const save = () =>
    flows.call('PUT', '/flow-files/other.flow.yaml', { body: { text: definition, base: null } })
  expect(await within(2_000, save())).toMatchObject({ statusCode: 200 })
  await within(2_000, reload())
  await flows.write('slow.flow.yaml', slow({ description: 'changed' }))
  await within(2_000, reload())
  await expect.poll(() => target.received.map(({ path }) => path)).toEqual(['/other/1'])
  await within(2_000, reload())
  await asked(2)
  answer(1, 'a')
  expect((await running).json()).toEqual({ name: 'slow', changes: 1 })
})

test('the poll of a changed flow is broken off, and its request is answered by the new definition', {
  tags: ['long'],
}, async () => {
  const running = sync()
  await asked(1)
  await flows.write('slow.flow.yaml', slow({ item: { key: 'id', filter: 'id != "b"' } }))
  await reload()
  await asked(2)
  // Nobody reads the answer of the earlier request.
  answer(0, 'a', 'b', 'c')
  answer(1, 'a', 'b')
  expect((await running).json()).toEqual({ name: 'slow', changes: 1 })
  await flows.delivered()
  expect(target.received.map(({ path }) => path)).toEqual(['/slow/a'])
  expect(flows.logLines.filter((line) => line.includes('"level":50'))).toEqual([])
})

test('a flow whose file is removed during its poll is paused at once, and goes on when it returns', {
  tags: ['long'],
}, async () => {
  const running = sync()
  await asked(1)
  await flows.remove('slow.flow.yaml')
  await within(2_000, reload())
  expect((await running).statusCode).toBe(404)
  expect((await sync()).statusCode).toBe(404)
  await flows.write('slow.flow.yaml', slow())
  await within(2_000, reload())
  const again = sync()
  await asked(2)
  answer(1, 'a')
  expect((await again).json()).toEqual({ name: 'slow', changes: 1 })
})

const sending = (extra: object) =>
  jsonFlow('other', source.url, {
    startPaused: false,
    item: { key: 'id', onDefinitionChange: 'send' },
    destinations: [
      {
        name: 'web',
        type: 'http',
        concurrency: 1,
        request: { method: 'PUT', url: `${source.url}/{pk}` },
        ...extra,
      },
    ],
  })
const define = async (extra: object) => {
  await flows.write('other.flow.yaml', sending(extra))
  await within(2_000, reload())
}

test('a reload waits for no attempt; the newest definition sends after it', {
  tags: ['long'],
}, async () => {
  await flows.write('other.json', [{ id: '1' }, { id: '2' }])
  const to = (place: string) => ({
    request: { method: 'PUT', url: `${source.url}/{pk}`, headers: { 'x-place': place } },
  })
  await define(to('former'))
  await asked(1)
  for (const place of ['skipped', 'next']) await define(to(place))
  expect(source.asked).toHaveLength(1)
  source.asked[0]?.end()
  await asked(2)
  source.asked[1]?.end()
  await flows.ended()
  expect(source.places).toEqual(['former', 'next'])
})

test('the next poll waits for an attempt by the former definition, because it compares with what was delivered', {
  tags: ['long'],
}, async () => {
  await define({ map: '{ "former": id }' })
  await asked(1)
  await define({ map: '{ "next": id }' })
  let isPolled = false
  const next = sync('other').then(() => {
    isPolled = true
  })
  await wait(500)
  expect(isPolled).toBe(false)
  source.asked[0]?.end()
  await next
  await asked(2)
  source.asked[1]?.end()
  await flows.ended()
  expect(source.bodies).toEqual(['{"former":"1"}', '{"next":"1"}'])
})
