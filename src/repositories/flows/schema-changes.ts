import { type Selectable, sql } from 'kysely'
import { type Db, json, type Trx } from '../../db/database.ts'
import type { HeldDriftsTable } from '../../db/tables.ts'

export type HeldDriftRow = Selectable<HeldDriftsTable>

/** As many rows as one statement takes. */
const rowsAtOnce = 1_000

export async function findHeldDrift(db: Db | Trx, flow: string): Promise<HeldDriftRow | undefined> {
  return db.selectFrom('held_drifts').selectAll().where('flow', '=', flow).executeTakeFirst()
}

export async function listHeldDrifts(db: Db): Promise<HeldDriftRow[]> {
  return db.selectFrom('held_drifts').selectAll().execute()
}

/** `since` stays as it was while a flow is held without a break. */
export async function writeHeldDrift(
  trx: Trx,
  { findings, ...row }: Omit<HeldDriftRow, 'findings'> & { findings: readonly unknown[] },
): Promise<void> {
  const { flow: _, since: __, ...changed } = row
  const written = { findings: json(findings) }
  await trx
    .insertInto('held_drifts')
    .values({ ...row, ...written })
    .onConflict((conflict) => conflict.column('flow').doUpdateSet({ ...changed, ...written }))
    .execute()
}

/** The flow is let through. Answers whether it was held. */
export async function clearHeldDrift(trx: Trx, flow: string): Promise<boolean> {
  const result = await trx.deleteFrom('held_drifts').where('flow', '=', flow).executeTakeFirst()
  await forgetHeldChanges(trx, flow)
  return result.numDeletedRows === 1n
}

/** Adds to the changes that are held; what was found of an item before is replaced. */
export async function keepHeldChanges(
  trx: Trx,
  flow: string,
  changes: readonly { pk: string; hash: string }[],
): Promise<void> {
  for (let from = 0; from < changes.length; from += rowsAtOnce) {
    const page = changes.slice(from, from + rowsAtOnce)
    await sql`
      insert into held_changes (flow, pk, hash)
      select ${flow}, pk, hash from jsonb_to_recordset(${json(page)}::jsonb) as one (pk text, hash text)
      order by pk
      on conflict (flow, pk) do update set hash = excluded.hash`.execute(trx)
  }
}

export async function forgetHeldChanges(trx: Trx, flow: string): Promise<void> {
  await trx.deleteFrom('held_changes').where('flow', '=', flow).execute()
}

/** Of these items the hash that was held; an item of which none was is absent. */
export async function findHeldChanges(
  db: Db,
  flow: string,
  pks: readonly string[],
): Promise<Map<string, string>> {
  if (pks.length === 0) return new Map()
  const rows = await db
    .selectFrom('held_changes')
    .select(['pk', 'hash'])
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
  return new Map(rows.map(({ pk, hash }) => [pk, hash]))
}
