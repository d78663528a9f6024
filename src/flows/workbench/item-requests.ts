import type { Db } from '../../db/database.ts'
import { listItemDeliveries } from '../../repositories/flows/delivery-reports.ts'
import { type ItemVersionRow, listItemHistory } from '../../repositories/flows/item-versions.ts'
import { listRemembered } from '../../repositories/flows/remembered-values.ts'
import type { Model } from '../api/api-model.ts'
import type { Flow } from '../definition/schema.ts'
import type { DestinationContext } from '../destinations/destination-context.ts'
import { compareVersions } from '../item/differences.ts'
import { type DryRunDelivery, openDryRunDeliveries } from './dry-run-deliveries.ts'
import type { ItemRequestsResponse } from './workbench-schemas.ts'

/** One destination of an item: what it would get now, and how that differs from the last delivery. */
type ItemRequests = Omit<Requests, keyof DryRunDelivery> & DryRunDelivery
type Requests = Model<typeof ItemRequestsResponse>['destinations'][number]

/**
 * What each destination of a flow would get for an item, from its newest stored record and the present definition. It
 * calls no destination. The record is null if none is kept.
 */
export async function itemRequests(
  db: Db,
  flow: Flow,
  pk: string,
  context: Omit<DestinationContext, 'flow' | 'agent'>,
): Promise<{ record: Record<string, unknown> | null; destinations: ItemRequests[] }> {
  const names = flow.destinations.map(({ name }) => name)
  const { versions, attempts } = await listItemHistory(db, flow.name, pk)
  const newest = versions.find(({ kind }) => kind === 'upsert')
  if (!newest?.payload) return { record: null, destinations: [] }
  const record = newest.payload
  const rows = await listItemDeliveries(db, flow.name, names, pk)
  const remembered = await listRemembered(db, flow.name, names, pk)
  const deliveries = await openDryRunDeliveries(flow, context)
  try {
    const bodies = new Map<string, DryRunDelivery[]>()
    const shownOf = async (version: ItemVersionRow) => {
      const { hash, payload } = version
      const known = bodies.get(hash)
      const made = known ?? (await deliveries.of({ pk, hash, value: payload ?? {} }, remembered))
      bodies.set(hash, made)
      return made
    }
    const now = await shownOf(newest)
    const destinations: ItemRequests[] = []
    for (const [place, shown] of now.entries()) {
      const row = rows.find((one) => one.destination === shown.name)
      const sent = versions.find(({ kind, hash, payload }) => {
        return kind === 'upsert' && payload !== null && hash === row?.delivered_hash
      })
      const before = sent && (await shownOf(sent))[place]
      const answer = attempts.find((one) => one.destination === shown.name)
      destinations.push({
        ...shown,
        deliveredAt: row?.delivered_at ?? null,
        recordChanges: sent ? compareVersions(sent.payload, record) : null,
        bodyChanges: before ? compareVersions(asRecord(before.body), asRecord(shown.body)) : null,
        answer: answer ?? null,
      })
    }
    return { record, destinations }
  } finally {
    await deliveries.close()
  }
}

/** A body may be a list or a single value. */
function asRecord(body: unknown): Record<string, unknown> {
  const isRecord = typeof body === 'object' && body !== null && !Array.isArray(body)
  return isRecord ? (body as Record<string, unknown>) : { body }
}
