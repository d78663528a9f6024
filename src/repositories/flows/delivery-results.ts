import { sql } from 'kysely'
import type { KeptBody } from '../../db/column-types.ts'
import type { Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import { type Reason, sentenceOf } from '../../texts/reason.ts'
import type { ItemClaim } from './claims.ts'
import { noBody } from './deliveries.ts'
import type { OutcomeTarget } from './delivery-target.ts'
import { contentOfDone } from './item-versions.ts'

/** What was delivered: the digest of the body, and what is stored of it for a later delete. */
type DeliveredBody = {
  digest?: string | undefined
  body?: KeptBody | undefined
  claim?: ItemClaim | undefined
}
/** Why the last attempt failed, and how many were made. */
type FailedAttempt = { attempts: number; why: Reason; status: number | null }

/** What happens to a row. All but `delivered_before` and `begun` concern its current version. */
export type RowResult =
  | ({ became: 'delivered' } & DeliveredBody)
  /** An older version arrived; the row still waits with a newer one. */
  | ({ became: 'delivered_before'; hash: string } & DeliveredBody)
  /** The destination already has this body. */
  | { became: 'unchanged'; digest: string }
  /** The destination must not get the current version; it keeps what it has. */
  | { became: 'skipped'; why: Reason }
  /** Another attempt follows, `delayMs` later by the database's clock. */
  | ({ became: 'retrying'; delayMs: number } & FailedAttempt)
  /** No attempt was made. The next one follows after the delay. */
  | { became: 'postponed'; delayMs: number }
  /** No further attempt follows automatically. The payload is kept for a manual retry. */
  | ({ became: 'failed' } & FailedAttempt)
  /** Only that an attempt began. */
  | { became: 'begun' }

export type DeliveryResultRow = RowResult & {
  pk: string
  /** The attempt may have arrived. A later delete needs its body. */
  begun?: { body: KeptBody | undefined; claim?: ItemClaim | undefined } | undefined
}

/**
 * Writes results of deliveries in one statement. The transaction has locked the rows. `at` is the time shown to
 * operators. The payload of an item is removed when its delivery is done, unless nothing else has it.
 */
export async function writeResults(
  trx: Trx,
  target: OutcomeTarget,
  results: readonly DeliveryResultRow[],
  at: Date,
): Promise<void> {
  if (results.length === 0) return
  const { flow, destination } = target
  const isDone = sql`became in ('delivered', 'unchanged', 'skipped')`
  const isDelivered = sql`became in ('delivered', 'delivered_before')`
  const hasFailed = sql`became in ('retrying', 'failed')`
  // Another item is what was to be deleted, or nothing is there.
  const isEndedDelete = sql`(became = 'skipped' and row.kind = 'delete')`
  // Of another identity the delete would be checked for the stored one.
  const isBegunAsKnown = sql`(is_begun and (row.claim_exact is null or row.claim_exact = given.claim_exact))`
  const isLater = sql`became in ('retrying', 'postponed')`
  await sql`
    with given as materialized (
      select * from jsonb_to_recordset(${json(results.map(columnsOf))}::jsonb) as given
        (pk text, became text, hash text, digest text, body jsonb, is_begun boolean, attempts integer,
          status integer, why jsonb, words text, delay_ms double precision, claim text, claim_exact text)
    )
    update deliveries as row set
      state = case when ${isDone} then 'done' when became = 'failed' then 'failed' else state end,
      delivered_hash = case when became in ('delivered', 'unchanged') or ${isEndedDelete} then row.hash
        when became = 'delivered_before' then given.hash else delivered_hash end,
      delivered_digest = case when became = 'delivered_before' and delivered_digest = ${sql.lit(noBody)} then delivered_digest
        when ${isDelivered} or became = 'unchanged' then given.digest
        when ${isEndedDelete} then null else delivered_digest end,
      delivered_at = case when ${isDelivered} then ${at}::timestamptz else delivered_at end,
      delivered_body = case when ${isDelivered} then given.body when ${isEndedDelete} then null
        when ${isBegunAsKnown} then coalesce(delivered_body, given.body) else delivered_body end,
      claim = case when ${isDelivered} then given.claim when ${isEndedDelete} then null when is_begun then coalesce(row.claim, given.claim) else row.claim end,
      claim_exact = case when ${isDelivered} then given.claim_exact when ${isEndedDelete} then null
        when is_begun then coalesce(row.claim_exact, given.claim_exact) else row.claim_exact end,
      may_have_arrived = not ${isDelivered} and (may_have_arrived or is_begun),
      payload = case when ${isDone} then ${contentOfDone(target)} else payload end,
      asked = case when not ${isDone} then asked end,
      skipped = case when became = 'skipped' then given.words else skipped end,
      attempts = coalesce(given.attempts, row.attempts),
      last_error = case when ${hasFailed} then given.words when not ${isDone} then last_error end,
      why = case when ${hasFailed} or became = 'skipped' then given.why when not ${isDone} then row.why end,
      last_status = case when ${hasFailed} then given.status when not ${isDone} then last_status end,
      finished_at = case when ${isDone} or became = 'failed' then ${at}::timestamptz else finished_at end,
      not_before = case when ${isLater} then ${at}::timestamptz + delay_ms * interval '1 millisecond'
        when not ${isDone} and became <> 'failed' then not_before end,
      due_at = case when not ${isLater} then due_at
        when delay_ms > 0 then now() + delay_ms * interval '1 millisecond' else '-infinity' end
    from given cross join lateral (
      select ctid as place from deliveries
      where (flow, destination, pk) = (${flow}, ${destination}, given.pk)
      limit 1
    ) as found
    where row.ctid = found.place`.execute(trx)
}

function columnsOf(result: DeliveryResultRow) {
  const { pk, became, begun } = result
  const claim = begun?.claim ?? ('claim' in result ? result.claim : undefined)
  return {
    ...{ claim: claim?.folded, claim_exact: claim?.exact },
    ...{ pk, became, is_begun: begun !== undefined },
    ...('hash' in result && { hash: result.hash }),
    ...('digest' in result && { digest: result.digest }),
    body: begun?.body ?? ('body' in result ? result.body : undefined),
    ...('why' in result && { why: result.why, words: sentenceOf(result.why, 'en') }),
    ...('attempts' in result && { attempts: result.attempts, status: result.status }),
    ...('delayMs' in result && { delay_ms: result.delayMs }),
  }
}
