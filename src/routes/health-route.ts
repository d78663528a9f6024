import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { snakeCased } from '../domain/field-names.ts'
import { buildInfo } from '../http/build-info.ts'
import { requireDatabase } from '../http/require-database.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { Timestamp } from './field-schemas.ts'

const HealthResponse = z
  .object({
    status: z.literal('ok'),
    timestamp: Timestamp,
    mode: z.enum(['sandbox', 'mercadopago']).describe('Which provider charges go to'),
    version: z.string().optional().describe('With the admin token only, like commit and checks'),
    commit: z
      .string()
      .nullable()
      .optional()
      .describe('What runs, as git names it; null when nothing tells'),
    flows_page: z
      .string()
      .nullable()
      .optional()
      .describe('Address of the page of the flows; null where browsers cannot reach one'),
    sandbox_url: z
      .string()
      .optional()
      .describe('Where the virtual terminals are, under the sandbox; loopback of its machine'),
    checks: z
      .object({
        database: z.object({
          status: z.enum(['ok', 'degraded']),
          engine: z.enum(['pglite', 'postgres']),
          warnings: z.array(z.string()),
        }),
        writes: z.object({
          status: z
            .enum(['ok'])
            .describe(
              'A write was committed within the last 3 seconds; the answer is 503 otherwise',
            ),
        }),
        provider: z.object({
          status: z.enum(['ok', 'degraded', 'unknown']),
          last_answer_at: Timestamp.nullable(),
          last_failure_at: Timestamp.nullable(),
        }),
        provider_clock: z.object({
          status: z
            .enum(['ok', 'degraded', 'unknown'])
            .describe('degraded: the clocks differ by 60 seconds or more; set our clock'),
          ahead_seconds: z
            .number()
            .nullable()
            .describe("By how much our clock is ahead of the provider's; negative: behind"),
        }),
        waiting_tills: z.number(),
      })
      .optional(),
  })
  .meta({
    id: 'Health',
    example: { status: 'ok', timestamp: '2026-11-21T14:30:00.000Z', mode: 'mercadopago' },
  })

export type HealthSource = {
  mode: 'sandbox' | 'mercadopago'
  /** Of the provider's stand-in; undefined with the real one. */
  sandboxUrl: string | undefined
  provider: () => {
    status: 'ok' | 'degraded' | 'unknown'
    lastAnswerAt: Date | null
    lastFailureAt: Date | null
  }
  providerClock: () => { status: 'ok' | 'degraded' | 'unknown'; aheadSeconds: number | null }
}

export const healthRoute: FastifyPluginAsyncZod<{
  deps: PaymentDeps
  health: HealthSource
}> = async (app, { deps, health: source }) => {
  app.get(
    '',
    {
      config: { errors: ['SERVICE_UNAVAILABLE'] },
      schema: {
        operationId: 'readHealth',
        summary: 'Whether the service can work',
        description:
          '503 when the database cannot be reached or commits no writes (a standby, a full disk, a lost quorum). Trouble at the provider is a degraded check and still 200.',
        response: { 200: HealthResponse },
      },
    },
    async (request) => {
      await requireDatabase(deps.database)
      const answer = { status: 'ok' as const, timestamp: deps.now(), mode: source.mode }
      const principal = await app.identify(request)
      if (!principal && request.headers['x-api-token'] !== undefined) await app.countTry(request)
      const flowsPage = { flows_page: deps.fleet.flowsPage() ?? null }
      if (principal?.type === 'operator') return { ...answer, ...flowsPage }
      if (principal?.type !== 'admin') return answer
      const warnings = await deps.database.settingWarnings()
      return {
        ...answer,
        version: buildInfo.version,
        commit: await buildInfo.commit(),
        ...flowsPage,
        ...(source.sandboxUrl !== undefined && { sandbox_url: source.sandboxUrl }),
        checks: {
          database: {
            status: warnings.length > 0 ? ('degraded' as const) : ('ok' as const),
            engine: deps.database.engine,
            warnings,
          },
          writes: { status: 'ok' as const },
          provider: snakeCased(source.provider()),
          provider_clock: snakeCased(source.providerClock()),
          waiting_tills: deps.changes.waiting(),
        },
      }
    },
  )
}
