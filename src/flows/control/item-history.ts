import type { Db } from '../../db/database.ts'
import {
  type ItemAttemptRow,
  type ItemVersionRow,
  listItemHistory,
} from '../../repositories/flows/item-versions.ts'
import type { ItemHistory } from '../flow-service.ts'
import { compareVersions } from '../item/differences.ts'
import { yieldToEventLoop } from '../poll/yield-to-event-loop.ts'

/** The versions of one item with their differences, and the attempts to deliver it, newest first. */
export async function reportItemHistory(db: Db, flow: string, pk: string): Promise<ItemHistory> {
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
  const { at, destination, kind, hash, outcome, status, reason, why } = attempt
  const sent = versions.find(
    (version) => version.hash === hash && version.kind === kind && version.seen_at <= at,
  )
  return {
    at,
    destination,
    version: sent?.id ?? null,
    kind,
    attempt: attempt.attempt,
    outcome,
    status,
    reason,
    why,
  }
}
