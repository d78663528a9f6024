import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { writerOf } from '../../src/http/json-body.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { publicServer } from './sample-app.ts'

let service: TestService
let flows: TestFlows
/** The response schemas of every route of both listeners, by route and status. */
const responses: [name: string, schema: z.ZodType][] = []

beforeAll(async () => {
  const watch = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance }
    fastify.addHook('onRoute', ({ method, url, schema }) => {
      const byStatus = (schema?.response ?? {}) as Record<string, unknown>
      for (const [status, response] of Object.entries(byStatus)) {
        for (const one of schemasOf(response)) responses.push([`${method} ${url} ${status}`, one])
      }
    })
  }
  subscribe('fastify.initialization', watch)
  service = await startTestService()
  flows = await startTestFlows({ service })
  unsubscribe('fastify.initialization', watch)
})
afterAll(async () => {
  await flows.stop()
  await service.stop()
})

/** A response is a schema, or names one for each content type. */
function schemasOf(response: unknown): z.ZodType[] {
  if (response instanceof z.ZodType) return [response]
  if (typeof response !== 'object' || response === null) return []
  return Object.values(response).flatMap(schemasOf)
}

test('the response schema of each route compiles to a serializer', () => {
  expect(responses.length).toBeGreaterThan(100)
  for (const [name, schema] of responses) expect(() => writerOf(schema), name).not.toThrow()
})

test('an answer has the fields of its schema and no others', async () => {
  const Answer = z.object({
    name: z.string(),
    note: z.string().nullable(),
    parts: z.array(z.object({ id: z.number(), at: z.iso.datetime() })),
    by: z.record(z.string(), z.number()),
  })
  const answer = {
    name: 'a "quoted" name',
    note: null,
    parts: [{ id: 1.5, at: '2026-11-26T10:00:00.000Z', secret: 'x' }],
    by: { one: 1 },
    secret: 'x',
  }
  expect(JSON.parse(writerOf(Answer)(answer))).toEqual(Answer.parse(answer))
})

test('in a test an answer that does not fit its schema is an error', async () => {
  const app = publicServer()
  app.get(
    '/wrong',
    { schema: { response: { 200: z.object({ cents: z.int() }) } } },
    async () => ({ cents: 'many' }) as never,
  )
  expect((await app.inject('/wrong')).statusCode).toBe(500)
  await app.close()
})
