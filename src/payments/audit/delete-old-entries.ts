import type { KeyObject } from 'node:crypto'
import type { Db } from '../../db/database.ts'
import {
  deleteBeforeStart,
  lockHead,
  readHead,
  readSealed,
  writeHead,
} from '../../repositories/audit/activity-chain.ts'
import type { PaymentDeps } from '../deps.ts'
import { type ChainPlace, isHeadAuthentic, signHead } from './signatures.ts'
import { whatIsWrong } from './verify-activity.ts'

/** A clock may have been wrong for a while: so many entries in a row may be younger than one after them. */
const youngAtMost = 10

/**
 * Deletes entries at the start of the chain that were made before a time, at most `limit`. The signed head gets the place and the
 * hash of the last one: the check of the log starts there from then on. Returns how many it deleted.
 *
 * @throws Error when an entry is not as it was written: all stay, for the check to report
 */
export async function deleteOldEntries(
  { database, auditKey }: Pick<PaymentDeps, 'database' | 'auditKey'>,
  before: Date,
  limit: number,
): Promise<number> {
  const head = await readHead(database.db)
  if (!isHeadAuthentic(auditKey, head)) throw notDeleted('the head of the log was changed')
  const start: ChainPlace = { seq: head.start_seq, hash: head.start_hash }
  let [previous, end] = [start, start]
  for (const one of await readSealed(database.db, start.seq, limit)) {
    if (one.seal.seq > head.seq || one.seal.seq - end.seq > youngAtMost + 1) break
    const isNext = one.seal.seq === previous.seq + 1
    const wrong = isNext ? whatIsWrong(auditKey, head, one, previous) : 'an entry is missing'
    if (wrong !== undefined) {
      // Another process has deleted entries since the head was read.
      if (await startsLater(database.db, auditKey, start)) return 0
      throw notDeleted(`${wrong} at place ${previous.seq + 1}`)
    }
    previous = one.seal
    if (one.entry && one.entry.created_at < before) end = one.seal
  }
  const count = end.seq - start.seq
  if (count === 0) return 0
  return database.transaction(async (trx) => {
    const current = await lockHead(trx)
    // Another process was faster.
    if (!isHeadAuthentic(auditKey, current) || current.start_seq !== start.seq) return 0
    const next = { ...current, start_seq: end.seq, start_hash: end.hash }
    await writeHead(trx, signHead(auditKey, next))
    if ((await deleteBeforeStart(trx)) !== count) throw notDeleted('it changed meanwhile')
    return count
  })
}

async function startsLater(db: Db, auditKey: KeyObject, { seq }: ChainPlace): Promise<boolean> {
  const head = await readHead(db)
  return isHeadAuthentic(auditKey, head) && head.start_seq > seq
}

function notDeleted(why: string): Error {
  return new Error(
    `old entries of the audit log are not deleted: ${why}; see GET /admin/activity/verify`,
  )
}
