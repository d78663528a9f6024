import { deleteHashes, listPksAfter, resetHashes } from '../../repositories/flows/flow-items.ts'
import { findFlowState, holdsLease, settleForgetting } from '../../repositories/flows/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { hasOtherKey } from './plan.ts'
import { LeaseLostError, type PollDeps, type PollLease } from './poll-deps.ts'

const rowsAtOnce = 1_000

/**
 * Forgets the hashes of a flow when a reset asked for it, `limit` in each transaction, under the lease of its polls: nothing
 * is read and sent meanwhile that would be forgotten too. What a crash leaves is forgotten by the next poll. The items stay
 * known, so that those the source has lost are still deleted; under another key nothing is known of them any longer.
 */
export async function forgetItems(
  deps: Pick<PollDeps, 'database' | 'now'>,
  runtime: Pick<FlowRuntime, 'flow' | 'itemForm'>,
  lease: PollLease,
  limit = rowsAtOnce,
): Promise<void> {
  const { database } = deps
  const flow = runtime.flow.name
  const state = await findFlowState(database.db, flow)
  if (!state?.forget_due) return
  const forget = hasOtherKey(runtime, state) ? deleteHashes : resetHashes
  let after: string | undefined
  do {
    if (lease.signal.aborted) throw new LeaseLostError()
    const last = after
    after = await database.transaction(async (trx) => {
      if (!(await holdsLease(trx, { ...lease, now: deps.now() }))) throw new LeaseLostError()
      const pks = await listPksAfter(trx, flow, last, limit)
      await forget(trx, flow, pks)
      if (pks.length === limit) return pks.at(-1)
      await settleForgetting(trx, flow, state.resets)
      return undefined
    })
  } while (after !== undefined)
}
