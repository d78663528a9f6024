import { sql } from 'kysely'
import type { KeptBody } from '../../db/column-types.ts'
import type { Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { ItemClaim } from './claims.ts'
import { deletedHash } from './deliveries.ts'
import type { DeliveryTarget } from './delivery-target.ts'
import { changeItemsStamp } from './flow-state.ts'

/** What an item had, or may have, at a destination under another identity than its present one. `pk`: see formerKey in item.ts. */
type FormerIdentityRow = { pk: string; body: KeptBody; claim: ItemClaim }

const formerHash = 'former'

/**
 * Records former identities as items that the source has lost, so that a later complete read deletes them like others: after the
 * guard, and not where a living item has the identity. They have no living item's claim: their kind is that of a delete.
 */
export async function insertFormerIdentities(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  formers: readonly FormerIdentityRow[],
  at: Date,
): Promise<void> {
  if (formers.length === 0) return
  const rows = formers.map(({ pk, body, claim }) => ({
    ...{ pk, body, claim: claim.folded, claim_exact: claim.exact },
  }))
  await sql`
    with given as materialized (
      select * from jsonb_to_recordset(${json(rows)}::jsonb)
        as given (pk text, body jsonb, claim text, claim_exact text)
      order by pk
    ), stored as (
      insert into flow_items (flow, pk, hash, changed_at, read_number)
      select distinct ${flow}, pk, ${formerHash}, ${at}::timestamptz, nextval('flow_reads') from given
      on conflict (flow, pk) do nothing
    )
    insert into deliveries (flow, destination, pk, version, change_number, kind, hash, state, attempts, queued_at,
      finished_at, delivered_hash, delivered_at, delivered_body, claim, claim_exact, may_have_arrived)
    select ${flow}, ${destination}, pk, 1, nextval('flow_reads'), 'delete', ${deletedHash}, 'done', 0, ${at}, ${at},
      ${formerHash}, ${at}, body, claim, claim_exact, false
    from given
    on conflict (flow, destination, pk) do update set
      version = deliveries.version + 1, change_number = excluded.change_number, kind = 'delete',
      hash = excluded.hash, state = 'done', payload = null, finished_at = excluded.finished_at,
      delivered_hash = excluded.delivered_hash, delivered_at = excluded.delivered_at,
      delivered_body = excluded.delivered_body, claim = excluded.claim, claim_exact = excluded.claim_exact,
      last_error = null, last_status = null, why = null, not_before = null, due_at = '-infinity', skipped = null`.execute(
    trx,
  )
  await changeItemsStamp(trx, flow)
}
