import type { HttpServer } from '../../http/create-server.ts'
import type { ControlDeps } from './control-deps.ts'
import { addDeletes } from './deletes.ts'
import { addDiagnostics, addDiagnosticsOfAll, addHistories } from './diagnostics.ts'
import { addFlowEvents } from './events.ts'
import { addSwitches } from './pauses-and-limits.ts'
import { addPolls } from './polls.ts'
import { addPreview } from './preview.ts'
import { addRetryAndReload } from './retry-and-reload.ts'
import { addSending } from './sending.ts'
import { addStatus } from './status.ts'
import { addWorkbench } from './workbench.ts'

export type { ControlDeps } from './control-deps.ts'

/** Every route of the control API but its page. */
export function addControlRoutes(app: HttpServer, deps: ControlDeps): void {
  addStatus(app, deps)
  addFlowEvents(app, deps)
  addDiagnostics(app, deps.flows)
  addDiagnosticsOfAll(app, deps.flows)
  addHistories(app, deps)
  addPolls(app, deps)
  addDeletes(app, deps)
  addPreview(app, deps)
  addSwitches(app, deps)
  addSending(app, deps)
  addRetryAndReload(app, deps)
  addWorkbench(app, deps)
}
