import type { Db, Trx } from '../../db/database.ts'
import { keptReason, type Reason, sentenceOf } from '../../domain/flow-reasons.ts'
import { errorRow } from './flow-errors.ts'

/** The same trouble of the same item is told once in this time, however often a poll meets it. */
const quietMs = 3_600_000

/** Records what is wrong at a source, unless it was recorded a short while ago. */
export async function insertSourceProblem(
  db: Db | Trx,
  given: { flow: string; pk: string; why: Reason; at: Date },
): Promise<void> {
  // What is refused for a NUL is told all the same: the database holds it in no text.
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
