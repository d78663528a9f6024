import type { Db, Trx } from '../../db/database.ts'
import { keptReason, type Reason, sentenceOf } from '../../domain/flow-reasons.ts'
import { errorRow } from './flow-errors.ts'

/** The same problem of the same item is recorded once in this time. */
const quietMs = 3_600_000

/** Records a problem of a source, unless it was recorded within the last hour. */
export async function insertSourceProblem(
  db: Db | Trx,
  given: { flow: string; pk: string; why: Reason; at: Date },
): Promise<void> {
  // The database stores no NUL in a text, so it is removed from a record that was refused for one.
  const problem = { ...given, pk: withoutNul(given.pk), why: keptReason(given.why) }
  const since = new Date(problem.at.getTime() - quietMs)
  const known = await db
    .selectFrom('flow_errors')
    .select('id')
    .where('flow', '=', problem.flow)
    .where('at', '>=', since)
    .where('adapter', '=', 'source')
    .where('pk', '=', problem.pk)
    .where('error', '=', sentenceOf(problem.why, 'en'))
    .limit(1)
    .executeTakeFirst()
  if (known) return
  await db
    .insertInto('flow_errors')
    .values(errorRow({ ...problem, adapter: 'source' }))
    .execute()
}

function withoutNul(text: string): string {
  return text.replaceAll('\0', '\ufffd')
}
