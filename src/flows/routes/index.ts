import type { HttpServer } from '../../http/create-server.ts'
import type { ControlDeps } from './control-deps.ts'
import { addDeliveries } from './delivery-routes.ts'
import { addFlowEvents } from './events.ts'
import { addItems } from './items.ts'
import { addPausesAndLimits } from './pauses-and-limits.ts'
import { addPolls } from './polls.ts'
import { addQuestion } from './question.ts'
import { addReload } from './reload.ts'
import { addSending } from './sending.ts'
import { addStatus } from './status.ts'
import { addTestAlerts } from './test-alerts.ts'
import { addWorkbench } from './workbench.ts'

export type { ControlDeps } from './control-deps.ts'

/** Every route of the control API but its page. */
export function addControlRoutes(app: HttpServer, deps: ControlDeps): void {
  addStatus(app, deps)
  addFlowEvents(app, deps)
  addDeliveries(app, deps)
  addItems(app, deps)
  addPolls(app, deps)
  addQuestion(app, deps)
  addPausesAndLimits(app, deps)
  addSending(app, deps)
  addTestAlerts(app, deps)
  addReload(app, deps)
  addWorkbench(app, deps)
}
