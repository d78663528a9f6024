import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../src/db/database.ts'
import { givenColumns } from './database.ts'

/** Inserts whole rows of orders, such as copies with other fields, without the columns that the database derives. */
export async function insertOrders(db: Db, rows: RawBuilder<unknown>): Promise<void> {
  const columns = await givenColumns(db, 'orders')
  await sql`insert into orders (${columns}) select ${columns} from (${rows}) as rows`.execute(db)
}
