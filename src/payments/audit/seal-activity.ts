import type { Trx } from '../../db/database.ts'
import type { Encryption } from '../../domain/encryption.ts'
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
import type { PaymentDeps } from '../deps.ts'
import { isHeadAuthentic, isSignedWith, sealEntry, signHead } from './activity.ts'

type SealDeps = Pick<PaymentDeps, 'database' | 'encryption' | 'now' | 'sleep' | 'log'>

/** The chain of the audit log: gives each committed entry its place, in one process at a time. */
export type ActivityChain = {
  start(): void
  /** Seals what is committed now, and writes the last checkpoint. */
  stop(): Promise<void>
  /** Seals all waiting entries. Returns how many. */
  sealAll(): Promise<number>
}

const everyMs = 1_000
const checkpointMs = 3_600_000
/** The embedded database does one thing at a time: a limit lets tills through between batches. */
const batch = 500

/**
 * An entry is committed with the change that it records, and gets its place in the chain afterwards. The list of waiting entries
 * is committed with them, so the next run seals what a crash left or what was committed late.
 *
 * A batch is one transaction under the lock of the head. Two processes never seal the same entry, and a crash between its steps
 * leaves the whole batch for the next run. A lease is not needed: this lock cannot expire.
 */
export function createActivityChain(deps: SealDeps): ActivityChain {
  let lastCheckpoint = Number.NEGATIVE_INFINITY
  let wasBroken = false

  const sealAll = async () => {
    const { sealed, isBroken, strays } = await sealWaiting(deps)
    for (const id of strays) {
      deps.log.error({ entry: id }, 'audit log entry found that this service did not write')
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
  /** The head is missing or its signature is invalid, so nothing was sealed. */
  isBroken: boolean
  /** Ids of entries that no process of this service has written; they get no place. */
  strays: string[]
}

/** Seals all that waits now, in batches. */
export async function sealWaiting(
  deps: Pick<SealDeps, 'database' | 'encryption'>,
): Promise<Sealing> {
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
  encryption,
}: Pick<SealDeps, 'database' | 'encryption'>): Promise<Round> {
  return database.transaction(async (trx) => {
    const round: Round = { sealed: 0, hasMore: false, isBroken: false, strays: [] }
    const head = await tryLockHead(trx)
    if (!head) return { ...round, isBroken: (await readHead(trx)) === undefined }
    // A seal after a head that this service did not write would make that head valid.
    if (!isHeadAuthentic(encryption, head)) return { ...round, isBroken: true }
    // Replaced keys do not count: the owner of an old key must not be able to write new entries.
    const waiting = await readUnsealed(trx, encryption.keyIds(), batch)
    const seals: SealRow[] = []
    let end = { seq: head.seq, hash: head.hash }
    for (const { isSealed, ...entry } of waiting) {
      if (isSealed) continue
      const key = encryption.signingKeyById(entry.key_id)
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
      await writeHead(trx, signHead(encryption, end))
    }
    return { ...round, sealed: seals.length, hasMore: waiting.length === batch }
  })
}

function logBroken(deps: Pick<SealDeps, 'log'>): void {
  deps.log.error(
    {},
    'audit log head missing or not signed by this service: sealing stopped; see GET /admin/activity/verify',
  )
}

/** Writes the end of the chain outside the database: it shows when the whole log was set back. */
async function writeCheckpoint({ database, encryption, log }: SealDeps): Promise<void> {
  const head = await readHead(database.db)
  if (!head || !isHeadAuthentic(encryption, head)) logBroken({ log })
  else if (head.seq > 0) log.info({ seq: head.seq, hash: head.hash }, 'activity log checkpoint')
}

/**
 * Signs a head that was never signed: of a new database, or of one from before heads were signed. It also signs again a head that
 * another key has signed, so that this key can be removed. Any other head is left for the check to report: an unsigned head
 * counts only when nothing shows a signed one before it. `given`: keys that are lost for good, whose signatures cannot be
 * checked.
 */
export async function signHeadAgain(
  {
    database,
    encryption,
    log,
  }: Pick<SealDeps, 'database' | 'encryption'> & Partial<Pick<SealDeps, 'log'>>,
  given: readonly string[] = [],
): Promise<void> {
  const isTaken = await database.transaction((trx) => signHeadAgainWithin(trx, encryption, given))
  if (!isTaken && log) logBroken({ log })
}

/** The same as part of a transaction. Returns whether the head is valid afterwards. */
export async function signHeadAgainWithin(
  trx: Trx,
  encryption: Encryption,
  given: readonly string[],
): Promise<boolean> {
  const head = await lockHead(trx)
  if (!head) return false
  const isOurs = isHeadAuthentic(encryption, head)
  if (isOurs && head.key_id === encryption.signingKey().id) return true
  const mayTake =
    isOurs || (head.key_id === null ? await isUntouched(trx, head) : given.includes(head.key_id))
  if (mayTake) await writeHead(trx, signHead(encryption, head))
  return mayTake
}

async function isUntouched(trx: Trx, head: { seq: number; hash: string }): Promise<boolean> {
  const { lastSeal, hasEntries, hasClients } = await readTraces(trx)
  return lastSeal
    ? // As the migration leaves it: older entries, and nothing after them.
      lastSeal.isCarried && lastSeal.seq === head.seq && lastSeal.hash === head.hash
    : head.seq === 0 && !hasEntries && !hasClients
}
