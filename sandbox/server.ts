import { randomBytes, randomUUID } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { callHooks } from './call-faults.ts'
import { chargebackRoutes } from './chargebacks.ts'
import { consentRoutes } from './consent.ts'
import { controlRoutes } from './control.ts'
import { ControlError } from './control-body.ts'
import { ApiError, envelopeOf, errorBody } from './errors.ts'
import { parseForm } from './form.ts'
import { keyMemoryMs } from './idempotency.ts'
import { newNumber } from './ids.ts'
import { fileJournal, memoryJournal } from './journal.ts'
import { arriveDue, hasArrivedLate } from './late-calls.ts'
import { readLedger, type SandboxLedger } from './ledger.ts'
import { hostIsLoopback, isLoopbackName } from './loopback-guard.ts'
import { tokenRoute } from './oauth.ts'
import { orderRoutes } from './orders.ts'
import { pageRoutes } from './page-routes.ts'
import { paymentRefundRoute } from './payment-refunds.ts'
import { paymentRoutes, searchReach } from './payments.ts'
import { posRoutes } from './pos.ts'
import { refundRoute } from './refunds.ts'
import { reportRoutes } from './reports.ts'
import { applicationOf, type Context, type HangingCall } from './sandbox-context.ts'
import { createSandboxState } from './sandbox-state.ts'
import { createScheduler, runDue } from './scheduler.ts'
import { newSeller, userRoutes } from './sellers.ts'
import { storeRoutes } from './stores.ts'
import { eventRoute } from './terminal-events.ts'
import { terminalRoutes } from './terminals.ts'
import { createWebhookSender } from './webhook-sender.ts'

export type { SandboxLedger } from './ledger.ts'

export type SandboxOptions = {
  /** 0 takes any free port. */
  port: number
  /** Loopback only; anything else throws. */
  host?: string
  /** Folder of the ledger file. Without it the state is in memory only. */
  dataDir?: string
  clientId?: string
  clientSecret?: string
  webhookSecrets?: string[]
  /** Where signed webhooks are sent. Without an address there are none. */
  webhookUrl?: string
  /** Exact redirect addresses; none means any loopback http address. */
  redirectUris?: string[]
  /** How long a terminal takes to fetch an order, and a simulated event to happen. 0: fetches not by itself; events at once. */
  pace?: { fetchMs: number; eventMs: number }
  /** The delay after each failed webhook attempt; the last one repeats. */
  webhookRetryMs?: number[]
  now?: () => Date
  /** Called for each call that begins to hang for longer than its caller waits. */
  onHang?: (call: HangingCall) => void
}

export type Sandbox = {
  url: string
  info: { client_id: string; client_secret: string; webhook_secrets: string[] }
  setWebhookUrl: (url: string) => void
  close: () => Promise<void>
  /** The state, for a program in the same process that needs no request. */
  context: Context
  /** A request to the provider's own pages and controls, without a socket. */
  inject: FastifyInstance['inject']
  /** Cuts the hanging calls and returns their number. */
  endHangs: () => number
  ledger: () => SandboxLedger
}

/** Three times a quarter of an hour, then longer (provider facts 6.1). */
const providerRetryMs = [15, 15, 15, 30, 60, 120].map((minutes) => minutes * 60_000)
/** Long enough to watch on the page, and short enough to wait for. */
const humanPace = { fetchMs: 1500, eventMs: 2500 }

/**
 * Starts the sandbox provider. Rejects when the host is not loopback, the port is taken, or another sandbox uses the
 * folder. Reads the stored state; unsent webhooks are sent.
 */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const host = options.host ?? '127.0.0.1'
  if (!isLoopbackName(host)) throw new Error(`the sandbox listens on loopback only, not on ${host}`)
  const nowMs = () => (options.now?.() ?? new Date()).getTime()
  const journal = options.dataDir === undefined ? memoryJournal() : fileJournal(options.dataDir)
  try {
    const ctx: Context = {
      state: createSandboxState(journal, nowMs),
      nowMs,
      pace: { ...(options.pace ?? humanPace) },
      redirectUris: options.redirectUris ?? [],
      webhooks: {
        url: options.webhookUrl ?? null,
        case: 'lower',
        ts_unit: 'auto',
        secret: 'right',
      },
      webhookRetryMs: options.webhookRetryMs ?? providerRetryMs,
      faults: [],
      requests: { count: 0, entries: [] },
      deliveries: [],
      waitingForNext: new Map(),
      lateCalls: [],
      arriving: new Set(),
      arrivals: Promise.resolve(),
      hanging: new Set(),
      prints: new Set(),
      withoutRefresh: new Set(),
      onHang: options.onHang ?? (() => {}),
      index: {
        lag_ms: 0,
        charges_after_ms: 0,
        results_at_most: searchReach,
        total_step: 0,
        drift: 0,
      },
      keyMemoryMs,
      wake: () => scheduler.wake(),
    }
    ensureApplication(ctx, options)
    const sender = createWebhookSender(ctx)
    const app = buildServer(ctx)
    const scheduler = createScheduler(app, ctx, sender)
    await app.listen({ host, port: options.port })
    scheduler.wake()
    const { port } = app.server.address() as AddressInfo
    const { clientId, clientSecret, webhookSecrets } = applicationOf(ctx)
    return {
      url: `http://${host.includes(':') ? `[${host.replace(/^\[|\]$/g, '')}]` : host}:${port}`,
      info: { client_id: clientId, client_secret: clientSecret, webhook_secrets: webhookSecrets },
      setWebhookUrl: (url) => {
        ctx.webhooks.url = url
        scheduler.wake()
      },
      context: ctx,
      inject: app.inject.bind(app) as FastifyInstance['inject'],
      endHangs: () => {
        const ends = [...ctx.hanging]
        for (const end of ends) end()
        return ends.length
      },
      ledger: () => readLedger(ctx),
      close: async () => {
        scheduler.close()
        await app.close()
        await sender.close()
        journal.close()
      },
    }
  } catch (error) {
    journal.close()
    throw error
  }
}

/** Created once: the service stores tokens that belong to these credentials. */
function ensureApplication(ctx: Context, options: SandboxOptions): void {
  const known = ctx.state.tables.application.get('app')
  const application = {
    clientId: options.clientId ?? known?.clientId ?? `${newNumber(8)}${newNumber(8)}`,
    clientSecret: options.clientSecret ?? known?.clientSecret ?? randomBytes(16).toString('hex'),
    webhookSecrets: options.webhookSecrets ??
      known?.webhookSecrets ?? [randomBytes(32).toString('hex')],
    ownerId: known?.ownerId ?? newNumber(10),
  }
  if (JSON.stringify(application) === JSON.stringify(known)) return
  const { ownerId } = application
  const owner = newSeller(ctx, { id: ownerId, nickname: `APPOWNER${ownerId}` })
  ctx.state.commit('application.set', application.clientId, {
    application: { app: application },
    sellers: { [ownerId]: ctx.state.tables.sellers.get(String(ownerId)) ?? owner },
  })
}

function buildServer(ctx: Context): FastifyInstance {
  const app = Fastify({
    logger: false,
    // Hanging sockets must not keep the process from ending.
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 1024 },
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    const text = String(body)
    // Cancel and total refund come with this type and no body (provider facts 0.2).
    if (text.trim() === '') return done(null, undefined)
    try {
      done(null, JSON.parse(text))
    } catch {
      done(syntaxError(request))
    }
  })
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', randomUUID())
    reply.header('date', new Date(ctx.nowMs()).toUTCString())
    reply.header('x-content-type-options', 'nosniff')
    if (!hostIsLoopback(request)) {
      return reply.code(403).send({ error: 'foreign Host header', code: 'FORBIDDEN' })
    }
    // Everything due runs before a request is answered, also after a test moved the clock.
    runDue(ctx)
    if (!hasArrivedLate(ctx, request)) await arriveDue(app, ctx)
  })
  callHooks(app, ctx)
  app.setErrorHandler(answerError)
  app.setNotFoundHandler((request, reply) => {
    const items = [{ code: 'not_found', message: 'resource not found' }]
    return reply.code(404).send(errorBody(404, items, envelopeOf(request.url)))
  })

  app.register(async (scope) => {
    scope.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      (_request, body, done) => done(null, parseForm(String(body))),
    )
    tokenRoute(scope, ctx)
    consentRoutes(scope, ctx)
  })
  app.register(async (scope) => controlRoutes(scope, ctx))
  app.register(async (scope) => pageRoutes(scope))
  for (const routes of [
    orderRoutes,
    refundRoute,
    paymentRoutes,
    paymentRefundRoute,
    chargebackRoutes,
    reportRoutes,
    eventRoute,
    storeRoutes,
    posRoutes,
    terminalRoutes,
    userRoutes,
  ]) {
    routes(app, ctx)
  }
  return app
}

function syntaxError(request: FastifyRequest): Error {
  if (request.url.startsWith('/_sandbox/')) {
    return new ControlError(400, 'the body is not valid JSON')
  }
  const code = request.url.startsWith('/oauth/') ? 'invalid_request' : 'json_syntax_error'
  return new ApiError(400, { code, message: 'The body is not valid JSON.' })
}

function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (error instanceof ControlError) {
    return reply.code(error.status).send({ error: error.message, code: error.code })
  }
  const path = request.url.split('?')[0] ?? ''
  if (error instanceof ApiError) {
    const envelope = error.envelope ?? envelopeOf(path)
    return reply
      .code(error.status)
      .headers(error.headers)
      .send(errorBody(error.status, error.items, envelope))
  }
  const given = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500
  const status = given >= 400 && given < 500 ? given : 500
  const message = status === 500 || !(error instanceof Error) ? 'internal error' : error.message
  const code = status === 500 ? 'internal_error' : 'bad_request'
  if (path.startsWith('/_sandbox/')) return reply.code(status).send({ error: message, code })
  return reply.code(status).send(errorBody(status, [{ code, message }], envelopeOf(path)))
}
