import { type RawBuilder, sql } from 'kysely'

/** How much due work a process takes at once, so that none of it waits in memory and no account uses up the room of others. */
export type ClaimRoom = {
  /** Over all accounts. */
  limit: number
  /** Of one account, by its number at the provider. */
  perAccount: number
  /** Accounts that have another room than `perAccount`; 0 takes nothing of theirs. */
  exceptions: ReadonlyMap<number, number>
}

/** The room of the account in `column`, to compare a row's place in its account's queue with. */
export function roomOfAccount(column: string, room: ClaimRoom): RawBuilder<number> {
  const exceptions = JSON.stringify(Object.fromEntries(room.exceptions))
  return sql<number>`coalesce((${exceptions}::jsonb ->> ${sql.ref(column)}::text)::int, ${room.perAccount}::int)`
}
