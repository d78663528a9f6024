import type { Db } from '../../db/database.ts'
import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import { listNamesakes } from '../../repositories/flows/claims.ts'
import {
  type ItemDelivery,
  listItemDeliveries,
  listItemEverywhere,
} from '../../repositories/flows/delivery-reports.ts'
import { findItem, findItemInFlows } from '../../repositories/flows/flow-items.ts'
import {
  type ItemAttemptRow,
  type ItemVersionRow,
  listItemHistory,
} from '../../repositories/flows/item-versions.ts'
import { listRemembered } from '../../repositories/flows/remembered-values.ts'
import type { FoundItem, ItemDestination, ItemHistory, ItemView } from '../api/control-types.ts'
import { missingType, type NamedDestination, withMissing } from '../deliver/destination-reports.ts'
import { compareVersions } from '../item/differences.ts'

/** The state of one item: its latest content at the source, and its deliveries at each destination of the flow. */
export async function reportItem(
  deps: { db: Db; now: () => Date },
  flow: { name: string; destinations: readonly NamedDestination[] },
  pk: string,
): Promise<ItemView> {
  const seen = (await findItem(deps.db, flow.name, pk)) ?? null
  const destinations = await withMissing(deps.db, flow)
  const names = destinations.map(({ name }) => name)
  const rows = await listItemDeliveries(deps.db, flow.name, names, pk)
  const byDestination = new Map(rows.map((row) => [row.destination, row]))
  const namesakes = await listNamesakes(deps.db, flow.name, names, pk)
  const remembered = await listRemembered(deps.db, flow.name, names, pk)
  return {
    seen,
    destinations: destinations.flatMap(({ name, type }) => {
      const row = byDestination.get(name)
      // A removed destination is reported only if it has a row for the item.
      if (!row && type === missingType) return []
      const known = row ? viewOf(row, seen?.hash, deps.now()) : nothingKnown
      return {
        ...{ name, type, ...known },
        sameIdentity: namesakes.get(name) ?? [],
        remembered: remembered.get(name) ?? null,
      }
    }),
    history: await reportItemHistory(deps.db, flow.name, pk),
  }
}

/** The flows among these that have the item, by one query for all. */
export async function findItemEverywhere(
  deps: { db: Db; now: () => Date },
  flows: readonly { name: string; destinations: readonly NamedDestination[] }[],
  pk: string,
): Promise<FoundItem[]> {
  const seen = await findItemInFlows(
    deps.db,
    flows.map(({ name }) => name),
    pk,
  )
  const rows = Map.groupBy(
    await listItemEverywhere(
      deps.db,
      flows.flatMap(({ name: flow, destinations }) =>
        destinations.map(({ name: destination }) => ({ flow, destination })),
      ),
      pk,
    ),
    ({ flow }) => flow,
  )
  return flows
    .filter(({ name }) => seen.has(name) || rows.has(name))
    .map(({ name, destinations }) => {
      const known = new Map(rows.get(name)?.map((row) => [row.destination, row]))
      return {
        name,
        changedAt: seen.get(name) ?? null,
        destinations: destinations.map((one) => {
          const row = known.get(one.name)
          return { name: one.name, state: row ? stateOf(row, deps.now()) : ('unknown' as const) }
        }),
      }
    })
}

type Known = Omit<ItemDestination, 'name' | 'type' | 'sameIdentity' | 'remembered'>

const nothingKnown: Known = {
  state: 'unknown',
  inSync: null,
  stillThere: false,
  attempts: 0,
  lastError: null,
  why: null,
  lastStatus: null,
  queuedAt: null,
  nextAttemptAt: null,
  deliveredAt: null,
}

function viewOf(row: ItemDelivery, seenHash: string | undefined, now: Date): Known {
  return {
    state: stateOf(row, now),
    inSync: isInSync(row, seenHash),
    stillThere: row.still_there,
    attempts: row.attempts,
    lastError: row.skipped ?? row.last_error,
    why: row.why,
    lastStatus: row.last_status,
    queuedAt: row.queued_at,
    nextAttemptAt: row.state === 'waiting' ? row.not_before : null,
    deliveredAt: row.delivered_at,
  }
}

function stateOf(
  { state, skipped, not_before: notBefore }: Pick<ItemDelivery, 'state' | 'skipped' | 'not_before'>,
  now: Date,
): ItemDestination['state'] {
  if (state === 'done') return skipped === null ? 'delivered' : 'skipped'
  if (state === 'failed') return 'failed'
  return notBefore !== null && notBefore > now ? 'delayed' : 'waiting'
}

/** Without a stored hash only a delivered delete is known to agree: a reset item may have changed. */
function isInSync(row: ItemDelivery, seenHash: string | undefined): boolean | null {
  if (row.state !== 'done') return false
  // The destination must not get the item's content.
  if (row.skipped !== null) return null
  if (seenHash !== undefined) return row.delivered_hash === seenHash
  return row.kind === 'delete' ? true : null
}

/** The versions of one item with their differences, and the attempts to deliver it, newest first. */
async function reportItemHistory(db: Db, flow: string, pk: string): Promise<ItemHistory> {
  const { versions, attempts } = await listItemHistory(db, flow, pk)
  const compared: ItemHistory['versions'] = []
  for (const [index, version] of versions.entries()) {
    await yieldToEventLoop()
    compared.push(versionOf(version, versions.slice(index + 1)))
  }
  return {
    content: versions[0]?.payload ?? null,
    versions: compared,
    attempts: attempts.map((attempt) => attemptOf(attempt, versions)),
  }
}

/** `older` are the versions before it, newest first. */
function versionOf(
  version: ItemVersionRow,
  older: readonly ItemVersionRow[],
): ItemHistory['versions'][number] {
  const { id, seen_at: seenAt, kind, hash } = version
  const common = { id, seenAt, kind, hash }
  if (kind === 'delete') {
    return { ...common, comparison: 'deleted', differences: [], differenceCount: 0 }
  }
  // An item that came back is compared with its content before the delete.
  const before = older.find((one) => one.kind === 'upsert')
  return { ...common, ...compareVersions(before?.payload, version.payload) }
}

/** An attempt sends the newest version with its content that existed before the attempt. */
function attemptOf(
  attempt: ItemAttemptRow,
  versions: readonly ItemVersionRow[],
): ItemHistory['attempts'][number] {
  const { at, kind, hash } = attempt
  const sent = versions.find(
    (version) => version.hash === hash && version.kind === kind && version.seen_at <= at,
  )
  return { ...attempt, version: sent?.id ?? null }
}
