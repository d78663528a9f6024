import { fileURLToPath } from 'node:url'
import type { FastifyBaseLogger } from 'fastify'
import type { LoggerOptions } from 'pino'
import { Registry } from 'prom-client'
import { isDatabaseUnavailable } from '../db/database-failures.ts'
import { completeFailure } from '../flows/control-errors.ts'
import { type ControlAccess, installControlAccess } from '../flows/routes/control-authentication.ts'
import { addControlRoutes, type ControlDeps } from '../flows/routes/index.ts'
import { installCompression } from '../http/compression.ts'
import { createServer, type HttpServer, publicPathOf } from '../http/create-server.ts'
import { serveGuide } from '../http/guide-pages.ts'
import { observeRequests } from '../http/logging.ts'
import { registerOpenApi } from '../http/openapi.ts'
import { leadBrowsersTo, servePages, serveSharedParts } from '../http/pages.ts'
import { readInTurns } from '../http/read-turns.ts'
import type { Tracing } from '../tracing/tracing.ts'

type ControlApiOptions = Omit<ControlDeps, 'isOperator' | 'check' | 'registry'> & {
  access: ControlAccess
  /** Adds the routes by which people sign in. */
  addSessionRoutes(app: HttpServer): void
  tracing?: Pick<Tracing, 'observe'> | undefined
  /** Address under which operators reach this listener. */
  publicUrl: string
  trustProxy: readonly string[]
  logger: FastifyBaseLogger | LoggerOptions | false
}

const pages = fileURLToPath(new URL('../../public', import.meta.url))

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
  })
  const registry = new Registry()
  observeRequests(app, registry)
  options.tracing?.observe(app)
  await installCompression(app)
  readInTurns(app, ({ person }) => person?.id ?? 'operator')
  await registerOpenApi(app, {
    title: 'tillbridge flow control API',
    description,
    publicUrl: options.publicUrl,
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
  const { isOperator, check } = installControlAccess(app, options.access)
  options.addSessionRoutes(app)
  addControlRoutes(app, { ...options, registry, isOperator, check })
  servePages(app, { root: `${pages}/admin`, prefix: '/admin' })
  serveSharedParts(app)
  serveGuide(app)
  leadBrowsersTo(app, '/admin')
  return app
}
