import { type Selectable, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { ClosingsTable } from '../../db/tables.ts'
import type { ClosingResult } from '../../domain/closing.ts'

export type ChangedClosing = Selectable<ClosingsTable> & {
  changed_at: Date
  amendments: number
  /** Of the last amendment. */
  amended_result: ClosingResult | null
}

/** Closings that changed, or were amended, after this position, in the order of their changes. */
export async function listChangedClosings(
  db: Db,
  query: {
    client?: string | undefined
    after: { at: Date; id: string } | null
    limit: number
  },
): Promise<ChangedClosing[]> {
  const { client, after, limit } = query
  let changes = db
    .selectFrom('closing_changes')
    .innerJoin('closings', 'closings.id', 'closing_changes.closing_id')
    .selectAll('closings')
    .select((eb) => [
      'closing_changes.changed_at',
      eb
        .selectFrom('closing_amendments')
        .whereRef('closing_id', '=', 'closings.id')
        .select((amended) => amended.fn.countAll<number>().as('count'))
        .$asScalar()
        .$notNull()
        .as('amendments'),
      eb
        .selectFrom('closing_amendments')
        .whereRef('closing_id', '=', 'closings.id')
        .orderBy('number', 'desc')
        .limit(1)
        .select('result')
        .$asScalar()
        .as('amended_result'),
    ])
  if (client !== undefined) changes = changes.where('closing_changes.client', '=', client)
  if (after) {
    changes = changes.where(
      sql<boolean>`(closing_changes.changed_at, closing_changes.closing_id) > (${after.at}, ${after.id})`,
    )
  }
  return changes
    .orderBy('closing_changes.changed_at')
    .orderBy('closing_changes.closing_id')
    .limit(limit)
    .execute()
}
