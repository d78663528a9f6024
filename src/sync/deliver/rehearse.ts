import { keptReason, type Reason } from '../../domain/flow-reasons.ts'
import { MappingError } from '../mapping.ts'
import type { ItemChange, Remembered } from '../types.ts'
import { jobOf, neverSent, type OpenDestination, sameBody } from './attempt.ts'
import { isSkip } from './item-body.ts'

/** A change that no read has recorded. */
export type RehearsedChange = Omit<ItemChange, 'change'>

/** A destination of a flow, as far as it can be asked about changes without being sent any. */
export type Rehearsal = {
  name: string
  type: string
  /** What would keep a change from being delivered, by the code that deliveries use; undefined when nothing does. */
  foresee(change: RehearsedChange): Promise<Foreseen>
}

/** `skipped`: the destination is not to have it. */
export type Foreseen = { refused: Reason } | { skipped: Reason } | undefined

/** What deliveries have left on record of an item at a destination. */
export type DeliveryRecord = {
  isThere: boolean
  /** Whether this body is what it has. */
  has(body: unknown): boolean
  /** What a delete needs of the delivered body. */
  fields: unknown
  remembered: Remembered | undefined
}

/** See Rehearsal; nobody is called and nothing is written. */
export async function rehearse(
  target: Pick<
    OpenDestination,
    'flow' | 'identity' | 'keyFields' | 'definition' | 'destination' | 'body'
  >,
  { pk, kind, hash, value: item }: RehearsedChange,
  record: DeliveryRecord | undefined,
): Promise<Foreseen> {
  if (kind === 'delete' && record?.isThere === false) return { skipped: neverSent }
  let body: unknown
  try {
    body = await (kind === 'delete'
      ? target.body.ofDelete(item, record?.fields)
      : target.body.ofUpsert(item))
  } catch (error) {
    if (error instanceof MappingError) return { refused: keptReason(error.why) }
    throw error
  }
  if (isSkip(body)) return { skipped: body.why }
  if (kind === 'upsert' && record?.has(body)) return { skipped: sameBody }
  const job = jobOf(target, {
    pk,
    kind,
    hash,
    change: 0,
    item,
    body,
    attempt: 1,
    remembered: record?.remembered,
    mayStart: () => false,
  })
  const refusal = target.destination.refusalOf(job)
  return refusal === undefined ? undefined : { refused: keptReason(refusal) }
}
