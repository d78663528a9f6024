import { fileURLToPath } from 'node:url'
import type { FastifyBaseLogger, FastifyPluginAsync } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { LoggerOptions } from 'pino'
import { Registry } from 'prom-client'
import { isDatabaseUnavailable } from '../db/database-failures.ts'
import { completeFailure } from '../flows/control-errors.ts'
import {
  type ControlAccess,
  controlAuthentication,
} from '../flows/routes/control-authentication.ts'
import {
  type ControlDeps,
  controlHealthRoute,
  flowMetricsRoute,
  operatorRoutes,
} from '../flows/routes/index.ts'
import { authFailureLimit } from '../http/auth-failure-limit.ts'
import { createServer, type HttpServer, publicPathOf } from '../http/create-server.ts'
import { guard } from '../http/guard.ts'
import { guidePages } from '../http/guide-pages.ts'
import { lists } from '../http/lists.ts'
import { requestMetrics } from '../http/logging.ts'
import { apiDocs, openApi } from '../http/openapi.ts'
import { pages, sharedParts, startPage } from '../http/pages.ts'
import type { Tracing } from '../tracing/tracing.ts'
import answers from './control-answers.json' with { type: 'json' }

type ControlApiOptions = Omit<ControlDeps, 'registry'> & {
  access: ControlAccess
  authFailuresPerMinute: number
  /** How people sign in and out. */
  sessionRoutes: FastifyPluginAsyncZod
  tracing?: Pick<Tracing, 'traceRequest'> | undefined
  /** Address under which operators reach this listener. */
  publicUrl: string
  trustProxy: readonly string[]
  logger: FastifyBaseLogger | LoggerOptions | false
}

const publicFolder = fileURLToPath(new URL('../../public', import.meta.url))

const description = `Steers and watches the flows that keep ERP data in step with other systems.

A flow polls its source at an interval, compares each item with a stored hash, and queues deliveries to its destinations.
Pauses survive a restart, run limits do not. Errors have one field, \`error\`. Durations are milliseconds.`

/** Builds listener 2, the control API of the flow side. The caller starts to listen. */
export async function buildControlApi(options: ControlApiOptions): Promise<HttpServer> {
  const app = createServer({
    logger: options.logger,
    trustProxy: options.trustProxy,
    publicPath: publicPathOf(options.publicUrl),
    errorStyle: 'plain',
    complete: completeFailure,
    isUnavailable: isDatabaseUnavailable,
    tracing: options.tracing,
  })
  const registry = new Registry()
  const deps = { ...options, registry }
  await app.register(requestMetrics, { registry })
  await app.register(openApi, {
    title: 'tillbridge flow control API',
    description,
    publicUrl: options.publicUrl,
    answers,
    tags: [
      { name: 'Flows', description: 'State of flows: pause, resume, limit, reload' },
      { name: 'Sending', description: 'Stop sending to destinations, and start it again' },
      { name: 'Sync', description: 'Polls, resets and retries' },
      { name: 'Definitions', description: 'Flow files: read, check, try and save them' },
      { name: 'Monitoring', description: 'Counts, figures, failures, alerts' },
      { name: 'Service', description: 'State of the service' },
    ],
    tokens: {
      admin: 'The SYNC_TOKEN; needed when it is set',
      metrics: 'The METRICS_TOKEN, for figures alone',
    },
  })
  await app.register(authFailureLimit, { perMinute: options.authFailuresPerMinute })
  await app.register(controlAuthentication, options.access)
  await app.register(lists, { ownerOf: ({ person }) => person?.id ?? 'operator' })
  // A scope for each audience, as on the payment API.
  await app.register(publicScope, deps)
  await app.register(operatorScope, deps)
  await app.register(metricsScope, deps)
  return app
}

type Scope = FastifyPluginAsync<ControlApiOptions & ControlDeps>

const publicScope: Scope = async (app, deps) => {
  await app.register(guard, { audience: 'public' })
  await app.register(controlHealthRoute, deps)
  await app.register(deps.sessionRoutes, { prefix: '/session' })
  await app.register(apiDocs)
  const folder = { root: `${publicFolder}/admin`, prefix: '/admin' }
  await app.register(pages, { folder })
  await app.register(sharedParts)
  await app.register(guidePages)
  await app.register(startPage, { path: folder.prefix })
}

const operatorScope: Scope = async (app, deps) => {
  await app.register(guard, { audience: 'admin' })
  await app.register(operatorRoutes, deps)
}

const metricsScope: Scope = async (app, deps) => {
  await app.register(guard, { audience: 'metrics' })
  await app.register(flowMetricsRoute, deps)
}
