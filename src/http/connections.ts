import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'

/** Which requests run on which socket, and which sockets never carried one. */
export type Connections = {
  requestsOn(socket: Socket): ReadonlySet<FastifyRequest>
  destroyUnused(): void
}

const none: ReadonlySet<FastifyRequest> = new Set()

/** Must be called before any other hook is added, so that no request is missed. */
export function trackConnections(app: FastifyInstance): Connections {
  const running = new WeakMap<Socket, Set<FastifyRequest>>()
  const unused = new Set<Socket>()

  app.server.on('connection', (socket: Socket) => {
    unused.add(socket)
    socket.once('close', () => unused.delete(socket))
  })

  app.addHook('onRequest', async (request, reply) => {
    const { socket } = request.raw
    unused.delete(socket)
    const requests = running.get(socket) ?? new Set()
    running.set(socket, requests.add(request))
    reply.raw.once('close', () => requests.delete(request))
  })

  return {
    requestsOn: (socket) => running.get(socket) ?? none,
    destroyUnused() {
      for (const socket of unused) socket.destroy()
    },
  }
}
