import type { Db } from '../../db/database.ts'
import { keptReason, type Reason } from '../../domain/flow-reasons.ts'
import { findDeliveries, mayBeThere } from '../../repositories/flows/deliveries.ts'
import { findRemembered } from '../../repositories/flows/remembered-values.ts'
import type { ItemChange } from '../types.ts'
import { hasBody, jobOf, neverSent, sameBody } from './attempt.ts'
import { type DestinationWork, remembers } from './destination-worker.ts'
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

/** See DeliveryPreview. It makes no request and writes nothing. */
export async function previewDelivery(
  db: Db,
  target: DestinationWork,
  { pk, kind, hash, value: item, isForced }: PreviewedChange,
): Promise<PreviewedOutcome> {
  const record = kind === 'upsert' && isForced ? undefined : await findRecord(db, target, pk)
  if (kind === 'delete' && record && !(record.row && mayBeThere(record.row))) {
    return { skipped: neverSent }
  }
  let body: unknown
  try {
    body = await (kind === 'delete'
      ? target.body.ofDelete(item, record?.row?.delivered_body ?? null)
      : target.body.ofUpsert(item))
  } catch (error) {
    if (error instanceof MappingError) return { refused: keptReason(error.why) }
    throw error
  }
  if (isSkip(body)) return { skipped: body.why }
  if (kind === 'upsert' && record?.row && hasBody(record.row, body)) return { skipped: sameBody }
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

/** What is stored of an item at a destination. */
async function findRecord(db: Db, { flow, definition }: DestinationWork, pk: string) {
  const target = { flow, destination: definition.name }
  const [row] = await findDeliveries(db, target, [pk])
  const remembered = remembers(definition)
    ? (await findRemembered(db, target, [pk])).get(pk)
    : undefined
  return { row, remembered }
}
