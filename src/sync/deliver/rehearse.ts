import { MappingError } from '../mapping.ts'
import { jobOf, type OpenDestination, reasonText } from './attempt.ts'
import type { ItemChange } from './deliver.ts'

/** A destination of a flow, as far as it can be asked about changes without being sent any. */
export type Rehearsal = {
  name: string
  type: string
  /** Why a change could not be delivered, by the code that deliveries use; undefined when nothing speaks against it. */
  refusalOf(change: ItemChange): Promise<string | undefined>
}

/** See Rehearsal; nobody is called and nothing is written. */
export async function rehearse(
  target: Pick<OpenDestination, 'flow' | 'keyFields' | 'definition' | 'destination' | 'body'>,
  { pk, kind, hash, value: item }: ItemChange,
): Promise<string | undefined> {
  let body: unknown
  try {
    body = await target.body(kind, item)
  } catch (error) {
    if (error instanceof MappingError) return reasonText(error.message)
    throw error
  }
  const job = jobOf(target, { pk, kind, hash, item, body, attempt: 1 })
  const refusal = target.destination.refusalOf(job)
  return refusal === undefined ? undefined : reasonText(refusal)
}
