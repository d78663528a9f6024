import { isDeepStrictEqual } from 'node:util'
import type { FlowStateRow } from '../../repositories/flows/flow-state.ts'
import { keyFormHash } from '../definition/definition-hash.ts'
import { identitiesOf } from '../definition/identity.ts'
import type { LoadedFlow } from '../definition/load-flow-files.ts'

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
