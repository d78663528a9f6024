import type { Database, Trx } from '../../db/database.ts'
import type { Sealer } from '../../domain/sealed.ts'
import { createBackgroundJob } from '../../jobs/background-job.ts'
import {
  deleteUnsealed,
  hasUnsealed,
  insertSeals,
  lockHead,
  readHead,
  readTraces,
  readUnsealed,
  type SealRow,
  tryLockHead,
  writeHead,
} from '../../repositories/audit/activity-chain.ts'
import type { Log } from '../deps.ts'
import { isHeadAuthentic, isSignedWith, sealEntry, signHead } from './activity-signatures.ts'

export type SealDeps = {
  database: Database
  sealer: Sealer
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  log: Log
}

/** The chain of the audit log: gives each committed entry its place, in one process at a time. */
export type ActivityChain = {
  start(): void
  /** Seals what was committed until now, and writes the last checkpoint. */
  stop(): Promise<void>
  /** Seals all that waits now. Answers how many entries. */
  sealAll(): Promise<number>
}

const everyMs = 1_000
const checkpointMs = 3_600_000
/** So that the embedded database, which does one thing at a time, lets tills pass. */
const batch = 500

/**
 * An entry is committed with the change that it records, and gets its place in the chain afterwards. The list of entries that
 * wait is committed with them, so what a crash left and what was committed late is sealed in the next run. A batch
 * is one transaction under the lock of the head: two processes never seal the same, and a crash between its steps leaves
 * all of it to the next. A lease would add nothing to that lock, which cannot run out while it is held.
 */
export function createActivityChain(deps: SealDeps): ActivityChain {
  let lastCheckpoint = Number.NEGATIVE_INFINITY
  let wasBroken = false

  const sealAll = async () => {
    const { sealed, isBroken, strays } = await sealWaiting(deps)
    for (const id of strays) {
      deps.log.error({ entry: id }, 'the audit log has an entry that this service did not write')
    }
    if (isBroken && !wasBroken) logBroken(deps)
    wasBroken = isBroken
    return sealed
  }
  const work = async () => {
    await sealAll()
    const now = deps.now().getTime()
    if (now - lastCheckpoint < checkpointMs) return
    await writeCheckpoint(deps)
    lastCheckpoint = now
  }
  const job = createBackgroundJob(deps, {
    name: 'audit-chain',
    intervalMs: everyMs,
    run: work,
    finish() {
      lastCheckpoint = Number.NEGATIVE_INFINITY
      return work()
    },
  })

  return { sealAll, start: job.start, stop: job.stop }
}

type Sealing = {
  sealed: number
  /** The head is gone or not ours, so nothing was sealed. */
  isBroken: boolean
  /** Ids of entries that none of our processes has written; they get no place. */
  strays: string[]
}

/** Seals all that waits now, in batches. */
export async function sealWaiting(deps: Pick<SealDeps, 'database' | 'sealer'>): Promise<Sealing> {
  const sealing: Sealing = { sealed: 0, isBroken: false, strays: [] }
  while (await hasUnsealed(deps.database.db)) {
    const round = await sealBatch(deps)
    sealing.sealed += round.sealed
    sealing.isBroken = round.isBroken
    sealing.strays.push(...round.strays)
    if (!round.hasMore) break
  }
  return sealing
}

type Round = Sealing & { hasMore: boolean }

async function sealBatch({
  database,
  sealer,
}: Pick<SealDeps, 'database' | 'sealer'>): Promise<Round> {
  return database.transaction(async (trx) => {
    const round: Round = { sealed: 0, hasMore: false, isBroken: false, strays: [] }
    const head = await tryLockHead(trx)
    if (!head) return { ...round, isBroken: (await readHead(trx)) === undefined }
    // Sealing on from a head that this service did not write would make it ours.
    if (!isHeadAuthentic(sealer, head)) return { ...round, isBroken: true }
    // Not by keys that were exchanged: the owner of an old key must not write today's entries.
    const waiting = await readUnsealed(trx, sealer.keyIds(), batch)
    const seals: SealRow[] = []
    let end = { seq: head.seq, hash: head.hash }
    for (const { isSealed, ...entry } of waiting) {
      if (isSealed) continue
      const key = sealer.signingKeyById(entry.key_id)
      if (!key || entry.previous_hash !== null || !isSignedWith(key, entry)) {
        round.strays.push(entry.id)
        continue
      }
      const seal = sealEntry(key, entry, end)
      seals.push(seal)
      end = seal
    }
    if (waiting.length === 0) return round
    await deleteUnsealed(
      trx,
      waiting.map(({ id }) => id),
    )
    if (seals.length > 0) {
      await insertSeals(trx, seals)
      await writeHead(trx, signHead(sealer, end))
    }
    return { ...round, sealed: seals.length, hasMore: waiting.length === batch }
  })
}

function logBroken(deps: Pick<SealDeps, 'log'>): void {
  deps.log.error(
    {},
    'the head of the audit log is missing or not ours: nothing is sealed any more; see GET /admin/activity/verify',
  )
}

/** The end of the chain, written outside the database: it shows when the whole log was set back. */
async function writeCheckpoint({ database, sealer, log }: SealDeps): Promise<void> {
  const head = await readHead(database.db)
  if (!head || !isHeadAuthentic(sealer, head)) logBroken({ log })
  else if (head.seq > 0) log.info({ seq: head.seq, hash: head.hash }, 'activity log checkpoint')
}

/**
 * Signs a head that was never signed, of a new database or of one from before heads were, and signs anew one that another
 * key has signed, so that this key can go. Any other head is left to verify: an unsigned head counts only where
 * nothing shows a signed one before it. `given`: keys that are lost for good, whose signatures cannot be checked.
 */
export async function takeOverHead(
  { database, sealer, log }: Pick<SealDeps, 'database' | 'sealer'> & { log?: Log },
  given: readonly string[] = [],
): Promise<void> {
  const isTaken = await database.transaction((trx) => takeOverHeadWithin(trx, sealer, given))
  if (!isTaken && log) logBroken({ log })
}

/** The same as part of a transaction. Answers whether the head is ours then. */
export async function takeOverHeadWithin(
  trx: Trx,
  sealer: Sealer,
  given: readonly string[],
): Promise<boolean> {
  const head = await lockHead(trx)
  if (!head) return false
  const isOurs = isHeadAuthentic(sealer, head)
  if (isOurs && head.key_id === sealer.signingKey().id) return true
  const mayTake =
    isOurs || (head.key_id === null ? await isUntouched(trx, head) : given.includes(head.key_id))
  if (mayTake) await writeHead(trx, signHead(sealer, head))
  return mayTake
}

async function isUntouched(trx: Trx, head: { seq: number; hash: string }): Promise<boolean> {
  const { lastSeal, hasEntries, hasClients } = await readTraces(trx)
  return lastSeal
    ? // As the migration leaves it: entries of before, and nothing after them.
      lastSeal.isCarried && lastSeal.seq === head.seq && lastSeal.hash === head.hash
    : head.seq === 0 && !hasEntries && !hasClients
}
