import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'

/** Rows with values that only a copy by PostgreSQL's own text form keeps unchanged. */
export async function insertUnusualRows(database: Database, count = 5): Promise<void> {
  const texts = [
    '',
    ' ',
    'null',
    '(a,"b\\"c")',
    "it's {x,NULL}",
    'two\nlines\r\t\u2028\u2029\u0085',
    'ñandú 🧉 \\x41 \\N \\.',
  ]
  for (const [index, text] of texts.entries()) {
    await sql`
      insert into settings (name, value, updated_at)
      values (${`strange ${index}`}, ${text}, '2026-11-22 03:04:05.123456+00')`.execute(database.db)
  }
  await sql`
    insert into webhook_log (id, request_id, mp_user_id, topic, signature_valid, status, payload, received_at, processed_at)
    values
      (gen_random_uuid(), 'sql null', 9007199254740993, null, true, 'processed', null, 'infinity', '-infinity'),
      (gen_random_uuid(), 'json null', -9223372036854775808, '', false, 'ignored', 'null', now(), null),
      (gen_random_uuid(), 'number', 9223372036854775807, ',', true, 'failed',
        '{"n": 1234567890.12345678901234567890, "e": 1e400, "t": "\\u0007", "deep": [[], {}, [null]]}', now(), now())`.execute(
    database.db,
  )
  await sql`
    insert into deliveries (flow, destination, pk, version, kind, hash, payload, state, queued_at, not_before)
    values ('articulos', 'tienda', 'A|1', 1, 'upsert', 'h', '{}', 'waiting', now() - interval '1 hour', now() + interval '1 hour')`.execute(
    database.db,
  )
  await sql`
    insert into flow_polls (flow, kind, started_at, duration_ms, rows_read, changes, error)
    select 'articulos', 'full', now() - g * interval '1 microsecond', g, g, g, repeat('e', g % 700)
    from generate_series(1, ${count}) g`.execute(database.db)
}
