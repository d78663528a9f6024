import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Counter, Histogram, type Registry } from 'prom-client'

/** From the reads of the embedded database to the 25 s within which an ERP gets its answer. */
const secondsUpTo = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25]
/** For requests that match no route: clients choose the path freely, and each one would be a series. */
const noRoute = 'none'

/** Counts the requests of a listener by route and status, and the refusals by their code. Call it before routes are added. */
export function observeRequests(app: FastifyInstance, registry: Registry): void {
  const registers = [registry]
  const requests = new Counter({
    name: 'tillbridge_http_requests_total',
    help: 'Requests by route and status; status "gone": the client disconnected before the answer',
    labelNames: ['method', 'route', 'status'],
    registers,
  })
  const seconds = new Histogram({
    name: 'tillbridge_http_request_duration_seconds',
    help: 'Time to the end of the answer; without streams and long-polls, which wait on purpose',
    labelNames: ['method', 'route'],
    buckets: secondsUpTo,
    registers,
  })
  const failures = new Counter({
    name: 'tillbridge_http_errors_total',
    help: 'Error answers by route and code',
    labelNames: ['method', 'route', 'code'],
    registers,
  })
  const counted = new WeakSet<FastifyRequest>()

  const count = (request: FastifyRequest, reply: FastifyReply, isGone: boolean) => {
    if (counted.has(request)) return
    counted.add(request)
    const labels = { method: request.method, route: request.routeOptions.url ?? noRoute }
    requests.inc({ ...labels, status: isGone ? 'gone' : String(reply.raw.statusCode) })
    if (reply.failureCode !== null) failures.inc({ ...labels, code: reply.failureCode })
    if (!isGone && !waits(request, reply)) seconds.observe(labels, reply.elapsedTime / 1000)
  }

  app.addHook('onRequest', async (request, reply) => {
    // onResponse does not run for a disconnected client, nor for a stream.
    reply.raw.once('close', () => count(request, reply, !reply.raw.headersSent))
  })
  app.addHook('onResponse', async (request, reply) => count(request, reply, false))
}

function waits({ query }: FastifyRequest, reply: FastifyReply): boolean {
  const isStream = String(reply.raw.getHeader('content-type')).startsWith('text/event-stream')
  return isStream || (typeof query === 'object' && query !== null && 'wait' in query)
}
