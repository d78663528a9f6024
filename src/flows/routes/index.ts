import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { ControlDeps } from './control-deps.ts'
import { deliveryRoutes } from './delivery-routes.ts'
import { flowEventRoutes } from './events.ts'
import { itemRoutes } from './items.ts'
import { pauseAndLimitRoutes } from './pauses-and-limits.ts'
import { pollRoutes } from './polls.ts'
import { questionRoutes } from './question.ts'
import { reloadRoutes } from './reload.ts'
import { sendingRoutes } from './sending.ts'
import { statusRoutes } from './status.ts'
import { testAlertRoutes } from './test-alerts.ts'
import { workbenchRoutes } from './workbench.ts'

export type { ControlDeps } from './control-deps.ts'
export { controlHealthRoute, flowMetricsRoute } from './health-and-metrics.ts'

/** What operators of flows call. The paths of a subject begin differently, so each stands whole on its route. */
export const operatorRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, deps) => {
  await app.register(statusRoutes, deps)
  await app.register(flowEventRoutes, deps)
  await app.register(deliveryRoutes, deps)
  await app.register(itemRoutes, deps)
  await app.register(pollRoutes, deps)
  await app.register(questionRoutes, deps)
  await app.register(pauseAndLimitRoutes, deps)
  await app.register(sendingRoutes, deps)
  await app.register(testAlertRoutes, deps)
  await app.register(reloadRoutes, deps)
  await app.register(workbenchRoutes, deps)
}
