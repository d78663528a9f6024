import { keptReason, type Reason } from '../../domain/flow-reasons.ts'
import type { ItemChange, Remembered } from '../types.ts'
import { jobOf, neverSent, type OpenDestination, sameBody } from './attempt.ts'
import { isSkip, MappingError } from './item-body.ts'

/** A change that no read has recorded. */
export type PreviewedChange = Omit<ItemChange, 'change'>

/** A destination of a flow that checks changes without sending them. */
export type DeliveryPreview = {
  name: string
  type: string
  /** What would prevent a delivery, by the code that deliveries use; undefined if nothing does. */
  check(change: PreviewedChange): Promise<PreviewedOutcome>
}

/** `skipped`: the destination must not get the item. */
export type PreviewedOutcome = { refused: Reason } | { skipped: Reason } | undefined

/** The stored record of an item at a destination. */
export type DeliveryRecord = {
  isThere: boolean
  /** Whether the destination has this body. */
  has(body: unknown): boolean
  /** The part of the delivered body that a delete needs. */
  fields: unknown
  remembered: Remembered | undefined
}

/** See DeliveryPreview. It makes no request and writes nothing. */
export async function previewDelivery(
  target: Pick<
    OpenDestination,
    'flow' | 'identity' | 'keyFields' | 'definition' | 'destination' | 'body'
  >,
  { pk, kind, hash, value: item }: PreviewedChange,
  record: DeliveryRecord | undefined,
): Promise<PreviewedOutcome> {
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
