import { createBackgroundJob } from '../../jobs/background-job.ts'
import {
  deleteSealsBeyond,
  deleteUnsealed,
  hasUnsealed,
  insertSeals,
  readHead,
  readUnsealed,
  type SealRow,
  tryLockHead,
  writeHead,
} from '../../repositories/audit/activity-chain.ts'
import type { PaymentDeps } from '../deps.ts'
import { type ChainPlace, isHeadAuthentic, isSigned, sealEntry, signHead } from './signatures.ts'

type SealDeps = Pick<PaymentDeps, 'database' | 'auditKey' | 'now' | 'sleep' | 'log' | 'events'>

/** The chain of the audit log: gives each committed entry its place, in one process at a time. */
export type ActivityChain = {
  start(): void
  /** Seals what is committed now, and writes the last checkpoint. */
  stop(): Promise<void>
  /** Seals all waiting entries. Returns how many. */
  sealAll(): Promise<number>
}

/** How often entries are looked for without a notification of one. */
const intervalMs = 30_000
/** Notified entries are committed within this time, and sealed together. */
const gatherMs = 1_000
const checkpointMs = 3_600_000
/** The embedded database does one thing at a time: a limit lets tills through between batches. */
const batch = 500

/**
 * An entry is committed with the change that it records, and gets its place in the chain a second afterwards. The list of waiting entries
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
    intervalMs,
    async run(signal) {
      await deps.sleep(gatherMs, signal).catch(() => undefined)
      await work()
    },
    finish() {
      lastCheckpoint = Number.NEGATIVE_INFINITY
      return work()
    },
  })

  let unsubscribe: (() => void) | undefined
  return {
    sealAll,
    start() {
      unsubscribe ??= deps.events.subscribe(job.wake, job.wake, ['activity'])
      job.start()
    },
    async stop() {
      unsubscribe?.()
      await job.stop()
    },
  }
}

type Sealing = {
  sealed: number
  /** The head is missing or its signature is invalid, so nothing was sealed. */
  isBroken: boolean
  /** Ids of entries that no process of this service has written; they get no place. */
  strays: string[]
}

/** Seals all that waits now, in batches. */
export async function sealWaiting(deps: Pick<SealDeps, 'database' | 'auditKey'>): Promise<Sealing> {
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
  auditKey,
}: Pick<SealDeps, 'database' | 'auditKey'>): Promise<Round> {
  return database.transaction(async (trx) => {
    const round: Round = { sealed: 0, hasMore: false, isBroken: false, strays: [] }
    const head = await tryLockHead(trx)
    if (!head) return { ...round, isBroken: (await readHead(trx)) === undefined }
    // A seal after a head that this service did not write would make that head valid.
    if (!isHeadAuthentic(auditKey, head)) return { ...round, isBroken: true }
    round.strays.push(...(await deleteSealsBeyond(trx, head.seq)))
    const waiting = await readUnsealed(trx, batch)
    if (waiting.length === 0) return round
    const seals: SealRow[] = []
    let end: ChainPlace = head
    for (const { isSealed, ...entry } of waiting) {
      if (isSealed) continue
      if (!isSigned(auditKey, entry)) {
        round.strays.push(entry.id)
        continue
      }
      const seal = sealEntry(entry, end)
      seals.push(seal)
      end = seal
    }
    await deleteUnsealed(
      trx,
      waiting.map(({ id }) => id),
    )
    if (seals.length > 0) {
      await insertSeals(trx, seals)
      await writeHead(trx, signHead(auditKey, { ...head, seq: end.seq, hash: end.hash }))
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
async function writeCheckpoint({ database, auditKey, log }: SealDeps): Promise<void> {
  const head = await readHead(database.db)
  if (!isHeadAuthentic(auditKey, head)) logBroken({ log })
  else if (head.seq > 0) log.info({ seq: head.seq, hash: head.hash }, 'activity log checkpoint')
}
