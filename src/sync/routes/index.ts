import type { HttpServer } from '../../http/create-server.ts'
import { addDeletes } from './deletes.ts'
import { addFlowEvents } from './events.ts'
import { addHistories } from './histories.ts'
import { addInquiries, addInquiriesOfAll } from './inquiries.ts'
import { addPolls } from './polls.ts'
import { addPreview } from './preview.ts'
import { addReadings } from './readings.ts'
import type { ControlDeps } from './room.ts'
import { addSwitches } from './switches.ts'
import { addUpkeep } from './upkeep.ts'

export type { ControlDeps } from './room.ts'

/** Every route of the control API but its page. */
export function addControlRoutes(app: HttpServer, deps: ControlDeps): void {
  addReadings(app, deps)
  addFlowEvents(app, deps)
  addInquiries(app, deps.flows)
  addInquiriesOfAll(app, deps.flows)
  addHistories(app, deps)
  addPolls(app, deps)
  addDeletes(app, deps)
  addPreview(app, deps)
  addSwitches(app, deps)
  addUpkeep(app, deps)
}
