import { isDeepStrictEqual } from 'node:util'
import type { Trx } from '../../db/database.ts'
import type { Term } from '../../jobs/leader.ts'
import { type LeaseDeps, LeaseLostError, underLease, withLease } from '../../jobs/with-lease.ts'
import { type FlowStateRow, renameFlow } from '../../repositories/flows/flow-state.ts'
import { pollLease } from '../../repositories/flows/leader-lease.ts'
import { identitiesOf } from '../definition/identity.ts'
import { keyFormHash } from '../item/definition-hash.ts'
import type { LoadedFlow } from '../loading/load-flow-files.ts'
import { recordAction, type SwitchDeps } from '../poll/pauses-and-limits.ts'

export type Rename = { from: string; to: string }

/**
 * Flows that one load finds under another name: the same source, destinations and key. `states` are those of flows without
 * a definition, `added` are definitions without a state. Two flows may share source and destinations, for example one for
 * prices and one for stock. So a name is taken over only if no other one comes into question, and if this load is the
 * first without the former name.
 */
export function findRenames(
  states: readonly FlowStateRow[],
  added: readonly LoadedFlow[],
  isFirstWithout: (state: FlowStateRow) => boolean,
): Rename[] {
  return added.flatMap((loaded) => {
    const [state, ...others] = states.filter((one) => isSame(one, loaded))
    if (!state || others.length > 0 || !isFirstWithout(state)) return []
    const isOnly = added.every((one) => one === loaded || !isSame(state, one))
    return isOnly ? [{ from: state.flow, to: loaded.flow.name }] : []
  })
}

/** 1,000,000 items take longer than a lease usually lasts. */
const moveLeaseMs = 60_000

/**
 * Moves the state of a flow to its present name, under the lease of its polls. Returns false if another process polls it
 * or leads.
 */
export async function moveFlow(
  deps: LeaseDeps & SwitchDeps & { log: { info(fields: object, message: string): void } },
  { from, to }: Rename,
  {
    actor,
    term,
    inSameTransaction,
  }: { actor: string; term: Pick<Term, 'holds'>; inSameTransaction: (trx: Trx) => Promise<void> },
): Promise<boolean> {
  const moved = await withLease(
    deps,
    pollLease(from),
    (lease) =>
      underLease(deps, lease, async (trx) => {
        await renameFlow(trx, from, to)
        const action = { flow: to, action: 'renamed', actor, detail: `former name: ${from}` }
        await recordAction(deps, trx, { at: deps.now(), ...action })
        await inSameTransaction(trx)
        if (!(await term.holds(trx))) throw new LeaseLostError()
      }),
    moveLeaseMs,
  ).catch((error: unknown) => {
    if (!(error instanceof LeaseLostError)) throw error
  })
  if (moved) deps.log.info({ flow: to, formerName: from }, 'flow renamed; its state goes with it')
  return moved !== undefined
}

function isSame(state: FlowStateRow, { flow }: LoadedFlow): boolean {
  const { source, destinations } = identitiesOf(flow)
  const { destination_identities: identities, destination_forms: forms } = state
  const before = Object.fromEntries(Object.keys(forms).map((name) => [name, identities[name]]))
  const keyForm = state.item_form?.split('/')[1]
  return (
    state.source_identity === source &&
    isDeepStrictEqual(before, destinations) &&
    keyForm === keyFormHash(flow)
  )
}
