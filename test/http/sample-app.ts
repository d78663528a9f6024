import { connect, type Socket } from 'node:net'
import { z } from 'zod'
import { createServer, type HttpServer, type ServerOptions } from '../../src/http/create-server.ts'

/** A server whose routes are for everybody. */
export function publicServer(options: Partial<ServerOptions> = {}): HttpServer {
  const app = createServer({ logger: false, ...options })
  app.decorate('audience', 'public')
  return app
}

/** A small app with the kinds of routes that the listeners have. `seen` collects what reached a handler. */
export function sampleApp(options: Partial<ServerOptions> = {}): {
  app: HttpServer
  seen: unknown[]
} {
  const app = publicServer(options)
  const seen: unknown[] = []

  app.post(
    '/echo',
    {
      schema: {
        body: z.strictObject({
          name: z.string().max(10),
          location: z.strictObject({ latitude: z.number() }).optional(),
          pos: z.array(z.strictObject({ name: z.string() })).optional(),
          free: z.unknown().optional(),
        }),
      },
    },
    async (request) => {
      seen.push(request.body)
      return { name: request.body.name }
    },
  )
  app.post('/nothing', async (request) => {
    seen.push(request.body)
    return { message: 'done' }
  })
  app.get(
    '/items/:name',
    {
      schema: {
        params: z.strictObject({ name: z.string().max(1024) }),
        querystring: z.strictObject({
          limit: z.string().regex(/^\d+$/).optional(),
          search: z.string().optional(),
        }),
      },
    },
    async (request) => {
      seen.push(request.params.name)
      return { name: request.params.name, address: request.ip }
    },
  )
  return { app, seen }
}

/** Sends bytes over a plain socket and answers all that came back until the server closed it. */
export async function exchange(app: HttpServer, text: string): Promise<string> {
  return readAll(await open(app, text))
}

export async function open(app: HttpServer, text: string): Promise<Socket> {
  const socket = connect({ port: await portOf(app), host: '127.0.0.1' })
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  socket.write(text)
  return socket
}

export function readAll(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('error', () => {})
    socket.on('close', () => resolve(Buffer.concat(chunks).toString()))
  })
}

/** Listens on a free port of loopback when it does not listen yet. */
export async function portOf(app: HttpServer): Promise<number> {
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' })
  const address = app.server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return address.port
}

export const json = { 'content-type': 'application/json' }
