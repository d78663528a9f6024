import type { Db, Trx } from '../../db/database.ts'
import type { Reason } from '../../domain/flow-reasons.ts'
import { type HeldLease, underLease } from '../../jobs/with-lease.ts'
import { endApprovals, listApprovals } from '../../repositories/flows/approvals.ts'
import { forgetDeliveries, hasDelivered } from '../../repositories/flows/deliveries.ts'
import { countItems } from '../../repositories/flows/flow-items.ts'
import {
  askFill,
  type FlowState,
  type FlowStateRow,
  requestFullScan,
  requireFlowState,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import { askAboutDestinations } from '../control/pauses-and-limits.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { isOtherSource, OutdatedError, otherDestinations } from './poll-plan.ts'
import type { PollDeps } from './poll-writer.ts'

type Deps = Pick<PollDeps, 'database' | 'now' | 'log' | 'isOnFile'>

/** Those that an operator must approve: something was delivered under their name, and no approval exists. */
export async function unapprovedDestinations(
  db: Db,
  runtime: Pick<FlowRuntime, 'flow' | 'identities'>,
  state: FlowStateRow,
): Promise<string[]> {
  const { name: flow } = runtime.flow
  const changed = otherDestinations(runtime, state)
  if (changed.length === 0) return []
  const approvals = await listApprovals(db, flow, 'destination')
  const unapproved: string[] = []
  for (const destination of changed) {
    const identity = runtime.identities.destinations[destination]
    if (approvals.some(({ pk }) => pk === identity)) continue
    if (await hasDelivered(db, { flow, destination })) unapproved.push(destination)
  }
  return unapproved
}

/** Why a flow with changed destinations waits. `items` would be sent to each. */
export function otherDestinationsReason(names: readonly string[], items: number): Reason {
  return { code: 'DESTINATION_CHANGED', data: { destinations: names.join(', '), items } }
}

/**
 * Applies another source or other destinations (see poll-plan.ts). Another source is read completely, and deletes wait for approval.
 * Another destination starts empty after approval. Returns the new state, or the question if the flow was paused
 * instead.
 */
export async function applyIdentity(
  deps: Deps,
  runtime: FlowRuntime,
  lease: HeldLease,
  state: FlowState,
): Promise<{ state: FlowState } | { asked: Reason }> {
  const { db } = deps.database
  const { name } = runtime.flow
  const write = (work: (trx: Trx) => Promise<void>) => underLease(deps, lease, work)
  const changed = otherDestinations(runtime, state)
  const isOther = isOtherSource(runtime, state)
  // The files may have changed since this process read them.
  if (!(await deps.isOnFile(runtime))) throw new OutdatedError()
  if (isOther) {
    await write(async (trx) => {
      await updateFlowState(trx, name, {
        ...{ source_identity: runtime.identities.source, holds_deletes: true },
        ...{ cursor: null, cursor_origin: null },
      })
      await requestFullScan(trx, name)
    })
    deps.log.warn({ flow: name }, 'source of a flow changed; its deletes wait')
  }
  if (changed.length === 0) return { state: await requireFlowState(db, name) }
  const asked = await unapprovedDestinations(db, runtime, state)
  if (asked.length > 0) {
    const why = otherDestinationsReason(asked, await countItems(db, name))
    const identities = Object.fromEntries(
      asked.map((one) => [one, runtime.identities.destinations[one] ?? '']),
    )
    await write((trx) => askAboutDestinations(trx, name, { at: deps.now(), why, identities }))
    deps.log.warn(
      { flow: name, destinations: asked },
      'destination changed; an operator must decide',
    )
    return { asked: why }
  }
  const approvals = await listApprovals(db, name, 'destination')
  // Nothing is sent meanwhile: the destination counts as not accepted until the last transaction.
  for (const destination of changed) {
    const isApproved = approvals.some(
      ({ pk }) => pk === runtime.identities.destinations[destination],
    )
    if (!isApproved) continue
    let isLeft = true
    while (isLeft) {
      await write(async (trx) => {
        isLeft = await forgetDeliveries(trx, { flow: name, destination }, rowsAtOnce)
      })
    }
  }
  await write(async (trx) => {
    await updateFlowState(trx, name, {
      destination_identities: {
        ...state.destination_identities,
        ...runtime.identities.destinations,
      },
      asked_identities: null,
    })
    for (const destination of changed) await askFill(trx, { flow: name, destination })
    await requestFullScan(trx, name)
    await endApprovals(trx, name, approvals)
  })
  deps.log.info({ flow: name, destinations: changed }, 'filling a new destination')
  return { state: await requireFlowState(db, name) }
}

const rowsAtOnce = 1_000
