import { fileURLToPath } from 'node:url'
import type { FastifyBaseLogger } from 'fastify'
import type { LoggerOptions } from 'pino'
import { isDatabaseUnavailable } from '../db/database-failures.ts'
import { installCompression } from '../http/compression.ts'
import { createServer, type HttpServer, publicPathOf } from '../http/create-server.ts'
import { createEventStreams, type StreamLimits } from '../http/event-stream.ts'
import { serveGuide } from '../http/guide-pages.ts'
import type { KnownHosts } from '../http/known-hosts.ts'
import { observeRequests } from '../http/logging.ts'
import { limitOpenRequests, type OpenRequestLimits } from '../http/open-request-limit.ts'
import { registerOpenApi } from '../http/openapi.ts'
import { leadBrowsersTo, servePages, serveSharedParts } from '../http/pages.ts'
import { readInTurns } from '../http/read-turns.ts'
import type { PaymentMetrics } from '../metrics/payment-metrics.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import type { WebhookInbox } from '../payments/webhooks/webhook-inbox.ts'
import { addAdminRoutes } from '../routes/admin/admin-routes.ts'
import type { TestAlerts } from '../routes/admin/notification-routes.ts'
import { addApiKeyRoutes } from '../routes/api-keys/api-key-routes.ts'
import { installGuards, placeOwner } from '../routes/authentication.ts'
import { addChargebackRoutes } from '../routes/chargebacks/chargeback-routes.ts'
import { addClosingRoutes } from '../routes/closings/closing-routes.ts'
import { addOauthRoutes } from '../routes/connection/oauth-routes.ts'
import { addEventRoutes } from '../routes/events/event-routes.ts'
import { ClientOnlyQuery } from '../routes/field-schemas.ts'
import { addFleetRoutes } from '../routes/fleet/fleet-routes.ts'
import { addHealthRoute, type HealthSource } from '../routes/health-route.ts'
import { addMetricsRoute } from '../routes/metrics/metrics-route.ts'
import { recordOrderRequests } from '../routes/orders/order-requests.ts'
import { addOrderRoutes } from '../routes/orders/order-routes.ts'
import { addSettleRoutes } from '../routes/orders/settle-routes.ts'
import { addTimelineRoute } from '../routes/orders/timeline-route.ts'
import { addOverviewRoute } from '../routes/overview/overview-route.ts'
import { addAccountRoutes } from '../routes/people/account-routes.ts'
import { addPeopleRoutes } from '../routes/people/people-routes.ts'
import { addSalesRoutes } from '../routes/sales/sales-routes.ts'
import { sessionCookieName } from '../routes/session/session-cookie.ts'
import { addSessionRoutes } from '../routes/session/session-routes.ts'
import { addSettlementRoutes } from '../routes/settlements/settlement-routes.ts'
import { addStatisticsRoutes } from '../routes/statistics/statistics-routes.ts'
import { addStoreRoutes } from '../routes/stores/store-routes.ts'
import { addTerminalRoutes } from '../routes/terminals/terminal-routes.ts'
import { addOrphanRoutes } from '../routes/unclaimed-payments/unclaimed-routes.ts'
import { addWebhookRoutes } from '../routes/webhooks/webhook-routes.ts'
import type { Tracing } from '../tracing/tracing.ts'
import type { Config } from './config.ts'

type PaymentApiOptions = {
  deps: PaymentDeps
  inbox: WebhookInbox
  health: HealthSource
  testAlerts: TestAlerts
  metrics: Pick<PaymentMetrics, 'registry' | 'scrape'>
  adminToken: string
  knownHosts: KnownHosts
  config: Config
  logger: FastifyBaseLogger | LoggerOptions | false
  /** Limits of event streams; for tests. */
  streams?: Partial<StreamLimits> | undefined
  /** How many long-polls may wait; for tests. */
  waits?: OpenRequestLimits | undefined
  tracing?: Pick<Tracing, 'observe'> | undefined
}

/** As many as event streams: half of the connections of a listener. */
const waitDefaults: OpenRequestLimits = { perOwner: 500, total: 5_000 }

const pages = fileURLToPath(new URL('../../public', import.meta.url))

const description = `Joins the tills of an ERP to the card terminals of a payment provider.

Amounts come in with a decimal comma and go out with a decimal point. Ids of stores and boxes are the ERP's own. Every
route but the public ones needs the header \`x-api-token\`: a client key, or the admin token together with the query
\`client\` on client routes.

Answers and errors of routes that move money carry \`outcome\` (\`charged\`, \`not_charged\`, \`unknown\`) and
\`retry_safe\`. Changes to this interface only add: new fields and new routes, never a new meaning.`

/** Builds listener 1, for ERPs and the administrator. The caller starts to listen. */
export async function buildPaymentApi(options: PaymentApiOptions): Promise<HttpServer> {
  const { deps, inbox } = options
  const app = createServer({
    logger: options.logger,
    trustProxy: options.config.trustProxy,
    publicPath: publicPathOf(deps.settings.publicUrl),
    isUnavailable: isDatabaseUnavailable,
  })
  observeRequests(app, options.metrics.registry)
  options.tracing?.observe(app)
  await installCompression(app)
  readInTurns(app, placeOwner)
  app.addHook('onRoute', (route) => {
    if (route.config?.access === 'client') {
      route.schema = { querystring: ClientOnlyQuery, ...route.schema }
    }
  })
  await registerOpenApi(app, {
    title: 'tillbridge payment API',
    description,
    publicUrl: deps.settings.publicUrl,
    tags: [
      {
        name: 'Orders',
        description: 'Charges on the terminal of a box',
        paths: ['orders', 'statistics', 'sales', 'sales-over-time'],
      },
      { name: 'Stores', description: 'Stores and their boxes', paths: ['stores'] },
      {
        name: 'Closings',
        description: 'Days of boxes and stores, compared with the provider',
        paths: ['closings', 'orphans', 'chargebacks'],
      },
      {
        name: 'Terminals',
        description: 'Card terminals paired with boxes',
        paths: ['terminals'],
      },
      {
        name: 'Settlements',
        description: 'What charges leave to the seller',
        paths: ['settlements'],
      },
      {
        name: 'OAuth',
        description: 'Connection of a client to its provider account',
        paths: ['oauth'],
      },
      {
        name: 'API keys',
        description: 'Keys of clients, for the administrator',
        paths: ['api-keys'],
      },
      {
        name: 'Administration',
        description: 'Clients, webhooks, audit log, simulation',
        paths: ['admin'],
      },
      { name: 'Webhooks', description: 'Messages from the provider', paths: ['webhooks'] },
      {
        name: 'People',
        description: 'Named users of the dashboard, and their own account',
        paths: ['people', 'account'],
      },
      {
        name: 'Session',
        description: 'Sessions of browsers, for the dashboard',
        paths: ['session'],
      },
      {
        name: 'Service',
        description: 'State of the service',
        paths: ['metrics', 'health', 'events', 'overview'],
      },
    ],
    tokens: {
      client: 'A client key: mk_ and 64 hexadecimal characters',
      admin: 'The ADMIN_TOKEN',
      metrics: 'The METRICS_TOKEN, for figures alone',
      session: {
        name: sessionCookieName(deps.settings.publicUrl.startsWith('https:')),
        description: 'The session of a person who signed in with a name and a password',
      },
    },
  })
  const { metricsToken, rateLimitPerSecond, authFailuresPerMinute } = options.config
  const guards = await installGuards(app, deps, {
    ...options,
    metricsToken,
    rateLimitPerSecond,
    authFailuresPerMinute,
  })
  const streams = createEventStreams(app, options.streams)
  addMetricsRoute(app, options.metrics.scrape)
  addHealthRoute(app, deps, guards, options.health)
  addFleetRoutes(app, deps)
  addOauthRoutes(app, deps, guards)
  addApiKeyRoutes(app, deps)
  addSessionRoutes(app, deps, guards)
  addPeopleRoutes(app, deps)
  addAccountRoutes(app, deps, guards)
  recordOrderRequests(app, deps)
  addOrderRoutes(app, deps, guards, limitOpenRequests(options.waits ?? waitDefaults))
  addTimelineRoute(app, deps)
  addSettleRoutes(app, deps)
  addEventRoutes(app, deps, guards, streams)
  addStatisticsRoutes(app, deps)
  addOverviewRoute(app, deps)
  addSalesRoutes(app, deps)
  addSettlementRoutes(app, deps)
  addStoreRoutes(app, deps)
  addClosingRoutes(app, deps)
  addOrphanRoutes(app, deps)
  addChargebackRoutes(app, deps)
  addTerminalRoutes(app, deps)
  addAdminRoutes(app, deps, inbox, options.testAlerts)
  addWebhookRoutes(app, inbox)
  servePages(app, { root: `${pages}/dashboard`, prefix: '/dashboard' })
  serveSharedParts(app)
  serveGuide(app)
  leadBrowsersTo(app, '/dashboard')
  return app
}
