import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import type { HttpServer, ServerOptions } from '../../src/http/create-server.ts'
import { publicServer } from './sample-app.ts'

let app: HttpServer
const sockets: Socket[] = []
let release = () => {}
afterEach(async () => {
  release()
  for (const socket of sockets.splice(0)) socket.destroy()
  await app.close()
})

async function listen(options: Partial<ServerOptions>): Promise<void> {
  // Nothing is cut here for being slow.
  const slowClient = { requestMs: 60_000, headersMs: 60_000, checkMs: 60_000 }
  app = publicServer({ slowClient, ...options })
  const answering = Promise.withResolvers<void>()
  release = answering.resolve
  app.get('/', async () => 'here')
  app.get('/slow', async () => answering.promise.then(() => 'late'))
  await app.listen({ host: '127.0.0.1', port: 0 })
}

type Caller = { socket: Socket; ask(path?: string): Promise<string>; isOpen(): boolean }

/** Comes from an address of its own; all of 127.0.0.0/8 is this machine. */
async function callFrom(address: string): Promise<Caller> {
  const port = (app.server.address() as { port: number }).port
  const socket = connect({ host: '127.0.0.1', port, localAddress: address })
  sockets.push(socket)
  let isOver = false
  // A cut may come as a reset.
  socket.on('error', () => {})
  socket.resume()
  socket.on('close', () => (isOver = true))
  await once(socket, 'connect')
  return {
    socket,
    isOpen: () => !isOver,
    async ask(path = '/') {
      socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`)
      const [data] = await Promise.race([once(socket, 'data'), once(socket, 'close')])
      return String(data).slice(9, 12)
    },
  }
}

async function manyFrom(address: string, count: number): Promise<Caller[]> {
  const callers: Caller[] = []
  for (let one = 0; one < count; one += 1) callers.push(await callFrom(address))
  return callers
}

const open = (callers: Caller[]) => callers.map(({ isOpen }) => isOpen())
const settle = () => wait(50)

test('at the limit the longest idle connection is closed for a new one', async () => {
  await listen({ connections: 5 })
  const early = await manyFrom('127.0.0.2', 5)
  for (const caller of early) expect(await caller.ask()).toBe('200')
  // The first is used again, so the second has been idle for longest.
  expect(await early[0]?.ask()).toBe('200')
  const later = [await callFrom('127.0.0.2'), await callFrom('127.0.0.3')]
  for (const caller of later) expect(await caller.ask()).toBe('200')
  await settle()
  expect(open(early)).toEqual([true, false, false, true, true])
  expect(open(later)).toEqual([true, true])
})

test('a connection whose request is being answered is not closed; when there are only such, a new one is closed', async () => {
  await listen({ connections: 3 })
  const busy = await manyFrom('127.0.0.2', 3)
  const answers = busy.map((caller) => caller.ask('/slow'))
  await settle()
  const newcomer = await callFrom('127.0.0.3')
  await settle()
  expect([...open(busy), newcomer.isOpen()]).toEqual([true, true, true, false])
  release()
  expect(await Promise.all(answers)).toEqual(['200', '200', '200'])
  // What was answered is idle again, and is closed for a new one.
  expect(await (await callFrom('127.0.0.3')).ask()).toBe('200')
})

test('T36: idle connections of one address, more than the limit of the listener, never block a till', async () => {
  await listen({ connections: 300 })
  const idle = await manyFrom('127.0.0.2', 600)
  const started = performance.now()
  expect(await (await callFrom('127.0.0.3')).ask()).toBe('200')
  // Otherwise until one of them was idle for the 72 s after which it is closed.
  expect(performance.now() - started).toBeLessThan(2000)
  await expect.poll(() => open(idle).filter(Boolean).length).toBe(299)
})

test('by default a listener has 10,000 connections, and 11,000 for a moment', async () => {
  await listen({})
  expect(app.server.maxConnections).toBe(11_000)
})
