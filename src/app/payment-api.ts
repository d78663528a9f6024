import { fileURLToPath } from 'node:url'
import type { FastifyBaseLogger, FastifyPluginAsync } from 'fastify'
import type { LoggerOptions } from 'pino'
import { isDatabaseUnavailable } from '../db/database-failures.ts'
import { authFailureLimit } from '../http/auth-failure-limit.ts'
import { createServer, type HttpServer, publicPathOf } from '../http/create-server.ts'
import type { StreamLimits } from '../http/event-stream.ts'
import { guard } from '../http/guard.ts'
import { guidePages } from '../http/guide-pages.ts'
import type { KnownHosts } from '../http/known-hosts.ts'
import { lists } from '../http/lists.ts'
import { requestMetrics } from '../http/logging.ts'
import { limitOpenRequests, type OpenRequestLimits } from '../http/open-request-limit.ts'
import { apiDocs, openApi } from '../http/openapi.ts'
import { pages, sharedParts, startPage } from '../http/pages.ts'
import type { PaymentMetrics } from '../metrics/payment-metrics.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import type { WebhookInbox } from '../payments/webhooks/webhook-inbox.ts'
import { allOrderRoutes, clientRoutes } from '../routes/admin/admin-routes.ts'
import { alertRoutes, type TestAlerts } from '../routes/admin/notification-routes.ts'
import { simulateRoutes } from '../routes/admin/simulate-routes.ts'
import { apiKeyRoutes } from '../routes/api-keys/api-key-routes.ts'
import { activityCheckRoute, activityRoutes } from '../routes/audit/activity-routes.ts'
import { paymentAuthentication, placeOwner } from '../routes/authentication.ts'
import { chargebackRoutes } from '../routes/chargebacks/chargeback-routes.ts'
import { clientGuard } from '../routes/client-guard.ts'
import { closingRoutes, storeTimeZoneRoute } from '../routes/closings/closing-routes.ts'
import { connectionRoutes } from '../routes/connection/connection-routes.ts'
import { invitationAdminRoutes } from '../routes/connection/invitation-admin-routes.ts'
import { loginRoutes } from '../routes/connection/login-routes.ts'
import { consumerPlaceRoutes, consumerRoutes } from '../routes/events/consumer-routes.ts'
import { endpointActionRoutes, endpointAttemptRoutes } from '../routes/events/endpoint-actions.ts'
import { endpointRoutes, oneEndpointRoutes } from '../routes/events/endpoint-routes.ts'
import { eventRoutes } from '../routes/events/event-routes.ts'
import { feedRoutes } from '../routes/events/feed-routes.ts'
import { fleetRoutes } from '../routes/fleet/fleet-routes.ts'
import { type HealthSource, healthRoute } from '../routes/health-route.ts'
import { metricsRoute } from '../routes/metrics/metrics-route.ts'
import { orderRoutes } from '../routes/orders/order-routes.ts'
import { overviewRoutes } from '../routes/overview/overview-route.ts'
import { accountRoutes, firstPasswordRoute } from '../routes/people/account-routes.ts'
import { peopleRoutes } from '../routes/people/people-routes.ts'
import { salesOverTimeRoutes, salesRoutes } from '../routes/sales/sales-routes.ts'
import { sessionRoutes } from '../routes/session/session-routes.ts'
import { chargeClassRoutes } from '../routes/settlements/charge-class-routes.ts'
import { settlementRoutes } from '../routes/settlements/settlement-routes.ts'
import { allStatisticsRoutes, statisticsRoutes } from '../routes/statistics/statistics-routes.ts'
import { storeRoutes } from '../routes/stores/store-routes.ts'
import { freeTerminalRoutes } from '../routes/terminals/free-terminal-route.ts'
import { terminalRoutes } from '../routes/terminals/terminal-routes.ts'
import { orphanRoutes } from '../routes/unclaimed-payments/unclaimed-routes.ts'
import { webhookLogRoutes } from '../routes/webhooks/webhook-log-routes.ts'
import { webhookRoutes } from '../routes/webhooks/webhook-routes.ts'
import type { Tracing } from '../tracing/tracing.ts'
import type { Config } from './config.ts'
import { describePaymentApi } from './payment-document.ts'

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
  tracing?: Pick<Tracing, 'traceRequest'> | undefined
}

/** As many as event streams: half of the connections of a listener. */
const waitDefaults: OpenRequestLimits = { perOwner: 500, total: 5_000 }

const publicFolder = fileURLToPath(new URL('../../public', import.meta.url))

/** Builds listener 1, for ERPs and the administrator. The caller starts to listen. */
export async function buildPaymentApi(options: PaymentApiOptions): Promise<HttpServer> {
  const { deps, config } = options
  const { publicUrl } = deps.settings
  const app = createServer({
    logger: options.logger,
    trustProxy: config.trustProxy,
    publicPath: publicPathOf(publicUrl),
    isUnavailable: isDatabaseUnavailable,
    tracing: options.tracing,
    stopwatch: deps.stopwatch,
  })
  await app.register(requestMetrics, { registry: options.metrics.registry })
  await app.register(openApi, describePaymentApi(publicUrl))
  await app.register(authFailureLimit, { perMinute: config.authFailuresPerMinute })
  await app.register(paymentAuthentication, {
    deps,
    adminToken: options.adminToken,
    metricsToken: config.metricsToken,
    knownHosts: options.knownHosts,
    rateLimitPerSecond: config.rateLimitPerSecond,
  })
  await app.register(lists, { ownerOf: placeOwner })
  // A scope for each audience: its guard, and the families whose routes it may call.
  await app.register(publicScope, options)
  await app.register(clientScope, options)
  await app.register(managerScope, options)
  await app.register(personScope, options)
  await app.register(adminScope, options)
  await app.register(metricsScope, options)
  return app
}

const publicScope: FastifyPluginAsync<PaymentApiOptions> = async (app, { deps, health, inbox }) => {
  await app.register(guard, { audience: 'public' })
  await app.register(healthRoute, { prefix: '/health', deps, health })
  await app.register(loginRoutes, { prefix: '/oauth', deps })
  await app.register(sessionRoutes, { prefix: '/session', deps })
  await app.register(firstPasswordRoute, { prefix: '/account', deps })
  await app.register(webhookRoutes, { prefix: '/webhooks', inbox })
  await app.register(apiDocs)
  const folder = { root: `${publicFolder}/dashboard`, prefix: '/dashboard' }
  await app.register(pages, { folder })
  await app.register(sharedParts)
  await app.register(guidePages)
  await app.register(startPage, { path: folder.prefix })
}

const clientScope: FastifyPluginAsync<PaymentApiOptions> = async (app, options) => {
  const { deps, streams } = options
  const waits = limitOpenRequests(options.waits ?? waitDefaults)
  await app.register(clientGuard, { deps })
  await app.register(fleetRoutes, { prefix: '/health/fleet', deps })
  await app.register(connectionRoutes, { prefix: '/oauth', deps })
  await app.register(orderRoutes, { prefix: '/orders', deps, waits })
  await app.register(eventRoutes, { prefix: '/events', deps, streams })
  await app.register(feedRoutes, { prefix: '/events/feed', deps, waits })
  await app.register(consumerRoutes, { prefix: '/events/feed/consumers', deps })
  await app.register(consumerPlaceRoutes, { prefix: '/events/feed/consumers', deps })
  await app.register(endpointRoutes, { prefix: '/events/endpoints', deps })
  await app.register(oneEndpointRoutes, { prefix: '/events/endpoints', deps })
  await app.register(endpointActionRoutes, { prefix: '/events/endpoints', deps })
  await app.register(endpointAttemptRoutes, { prefix: '/events/endpoints', deps })
  await app.register(statisticsRoutes, { prefix: '/statistics', deps })
  await app.register(overviewRoutes, { prefix: '/overview', deps })
  await app.register(salesRoutes, { prefix: '/sales', deps })
  await app.register(salesOverTimeRoutes, { prefix: '/sales-over-time', deps })
  await app.register(settlementRoutes, { prefix: '/settlements', deps })
  await app.register(storeRoutes, { prefix: '/stores', deps })
  await app.register(storeTimeZoneRoute, { prefix: '/stores', deps })
  await app.register(closingRoutes, { prefix: '/closings', deps, waits })
  await app.register(orphanRoutes, { prefix: '/orphans', deps })
  await app.register(chargebackRoutes, { prefix: '/chargebacks', deps })
  await app.register(terminalRoutes, { prefix: '/terminals', deps })
}

const managerScope: FastifyPluginAsync<PaymentApiOptions> = async (app, { deps }) => {
  await app.register(guard, { audience: 'managers' })
  await app.register(peopleRoutes, { prefix: '/people', deps })
  await app.register(activityRoutes, { prefix: '/admin/activity', deps })
}

const personScope: FastifyPluginAsync<PaymentApiOptions> = async (app, { deps }) => {
  await app.register(guard, { audience: 'person' })
  await app.register(accountRoutes, { prefix: '/account', deps })
}

const adminScope: FastifyPluginAsync<PaymentApiOptions> = async (app, options) => {
  const { deps, inbox, testAlerts } = options
  await app.register(guard, { audience: 'admin' })
  await app.register(apiKeyRoutes, { prefix: '/api-keys', deps })
  await app.register(alertRoutes, { prefix: '/admin/alerts', deps, testAlerts })
  await app.register(clientRoutes, { prefix: '/admin/clients', deps })
  await app.register(invitationAdminRoutes, { prefix: '/admin/invitations', deps })
  await app.register(webhookLogRoutes, { prefix: '/admin/webhooks', deps, inbox })
  await app.register(activityCheckRoute, { prefix: '/admin/activity', deps })
  await app.register(simulateRoutes, { prefix: '/admin/orders', deps })
  await app.register(allOrderRoutes, { prefix: '/admin/orders', deps })
  await app.register(allStatisticsRoutes, { prefix: '/admin/statistics', deps })
  await app.register(chargeClassRoutes, { prefix: '/admin/charge-classes', deps })
  await app.register(freeTerminalRoutes, { prefix: '/admin/terminals', deps })
}

const metricsScope: FastifyPluginAsync<PaymentApiOptions> = async (app, { metrics }) => {
  await app.register(guard, { audience: 'metrics' })
  await app.register(metricsRoute, { prefix: '/metrics', scrape: metrics.scrape })
}
