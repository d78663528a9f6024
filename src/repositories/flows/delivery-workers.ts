import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

/** A process tells what it has in hand this often, while it has anything. */
export const handsToldMs = 5_000
/** What a process told last counts no longer: it is dead, or has nothing in hand. */
const countsForMs = 3 * handsToldMs

/** Tells how many deliveries a process has in hand. */
export async function tellHands(db: Db, process: string, inHand: number): Promise<void> {
  await sql`
    insert into delivery_hands (process, in_hand, at) values (${process}, ${inHand}, now())
    on conflict (process) do update set in_hand = excluded.in_hand, at = excluded.at`.execute(db)
}

/** What a process told counts no longer, nor what dead ones have left. */
export async function forgetHands(db: Db, process: string): Promise<void> {
  await sql`
    delete from delivery_hands
    where process = ${process} or at < now() - interval '1 day'`.execute(db)
}

/** How many deliveries the other processes have in hand. */
export async function countOtherHands(db: Db, process: string): Promise<number> {
  const { rows } = await sql<{ inHand: number }>`
    select coalesce(sum(in_hand), 0)::bigint as "inHand" from delivery_hands
    where process <> ${process}
      and at > now() - ${countsForMs} * interval '1 millisecond'`.execute(db)
  return rows[0]?.inHand ?? 0
}
