import type { FastifyRequest } from 'fastify'
import { parseExactJson } from '../../domain/json.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { installJsonBody } from '../../http/json-body.ts'
import { PushBody, PushedResponse } from '../push-schemas.ts'
import { FlowParams } from '../schemas.ts'
import { actorOf, type ControlDeps, forFlow } from './room.ts'

/** A thread that serves tills too reads and hashes them. */
const pushLimitBytes = 1024 * 1024

const description = `For an ERP that says by itself what changed. An item is compared, stored and owed as if a poll had found it, also while the flow
is paused; the answer says what became of each. 202: what is \`new\`, \`changed\` or \`deleted\` is kept for good and will be delivered.
Sending the same again changes nothing, so a push without an answer is sent again; one whose caller has hung up is not taken. Up to
1,000 items and deletes and 1 MiB.

A push counts as a read of the source that begins when the request arrives. Polls go on beside it: one that began before gives way
to it, and one that begins after it has the last word, so an item may be refused with \`retry\`.`

/** Items that are pushed instead of polled. */
export function addPushes(app: HttpServer, { flows }: ControlDeps): void {
  // A scope of its own: numbers are taken as exactly as from a source, and a text that cannot be kept refuses its own item.
  app.register(async (scope) => {
    installJsonBody(scope, { read: parseExactJson, judgesText: true })
    addPush(scope as unknown as HttpServer, flows)
  })
}

function addPush(app: HttpServer, flows: ControlDeps['flows']): void {
  const reads = new WeakMap<FastifyRequest, number>()
  app.post(
    '/flow/:name/items',
    {
      ...forFlow,
      bodyLimit: pushLimitBytes,
      // Before the body is there, which may take its time: what a poll reads meanwhile may be newer.
      onRequest: async (request) => {
        const { name } = request.params as { name: string }
        reads.set(request, await flows.beginPush(name))
      },
      schema: {
        operationId: 'pushItems',
        summary: 'Items that changed, from the ERP itself',
        description,
        tags: ['Sync'],
        params: FlowParams,
        body: PushBody,
        response: { 202: PushedResponse },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const read = reads.get(request) ?? (await flows.beginPush(name))
      const pushed = await flows.push(name, request.body, read, actorOf(request))
      return reply.code(202).send({ name, ...pushed })
    },
  )
}
