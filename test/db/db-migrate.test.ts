import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import {
  MigrationError,
  migrate,
  migrationsFolder,
  NewerDatabaseError,
} from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { writeOperatorMessage } from '../../src/errors/operator-error.ts'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'
import { countStatements } from '../support/statements.ts'
import { engines } from './engines.ts'

const shipped = (await readdir(migrationsFolder)).sort()

describe.each(engines)('on $title', ({ skip, open }) => {
  let database: Database
  let folder: string
  beforeEach(async () => {
    if (!skip) database = await open()
    folder = await mkdtemp(join(tmpdir(), 'tillbridge-'))
    // The database has had these, so the folder must go on from them.
    for (const name of shipped) await writeFile(join(folder, name), '')
  })
  afterEach(async () => {
    await database?.close()
    await rm(folder, { recursive: true })
  })

  test.skipIf(skip)('a database with all migrations gets one query and no change', async () => {
    const statements = await countStatements(async () => {
      expect(await migrate(database)).toEqual([])
    })
    expect(statements).toEqual(['select name from kysely_migration'])
    const { rows } = await sql`select name from kysely_migration order by name`.execute(database.db)
    expect(rows).toEqual(shipped.map((name) => ({ name })))
  })

  test.skipIf(skip)(
    'a failed migration is named and leaves no trace, nor does one applied before it',
    { tags: ['long'] },
    async () => {
      await writeFile(
        join(folder, '9001_good.sql'),
        'create table good (n int); insert into good values (1);',
      )
      await writeFile(join(folder, '9002_bad.sql'), 'create table bad (n int); select 1/0;')
      const error = await migrate(database, { folder }).catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(MigrationError)
      expect(error).toMatchObject({
        migration: '9002_bad.sql',
        message: expect.stringMatching(/^9002_bad\.sql failed: /),
        cause: { code: '22012' },
      })
      const { rows } =
        await sql`select to_regclass('good') as good, to_regclass('bad') as bad`.execute(
          database.db,
        )
      expect(rows).toEqual([{ good: null, bad: null }])
    },
  )

  test.skipIf(skip)('a migration is followed by new statistics of the tables', async () => {
    await database.db.connection().execute(async (db) => {
      await sql`
        insert into settings (name, value, updated_at)
        select n::text, '', now() from generate_series(1, 300) as n`.execute(db)
      await sql`select pg_stat_force_next_flush()`.execute(db)
    })
    await writeFile(join(folder, '9001_more.sql'), 'alter table settings add more int default 7;')
    await migrate(database, { folder })
    const { rows } = await sql`
      select most_common_vals::text as commonest from pg_stats
      where tablename = 'settings' and attname = 'more'`.execute(database.db)
    expect(rows).toEqual([{ commonest: '{7}' }])
  })

  test.skipIf(skip)('several statements in a file, functions too, all run', async () => {
    await writeFile(
      join(folder, '9001_several.sql'),
      `create table several (n int);
       create function plus(n int) returns int language plpgsql as $$ begin return n + 1; end $$; -- a ; in a comment
       insert into several select plus(1);`,
    )
    expect(await migrate(database, { folder })).toEqual(['9001_several.sql'])
    expect((await sql`select n from several`.execute(database.db)).rows).toEqual([{ n: 2 }])
  })

  test.skipIf(skip)(
    'a database of a newer version is refused as such, with what it has beyond this version',
    { tags: ['long'] },
    async () => {
      const [last = ''] = shipped.slice(-1)
      await rm(join(folder, last))
      // With nothing to apply, and with something.
      for (const more of [[], ['9001_own.sql']]) {
        for (const name of more) await writeFile(join(folder, name), 'create table own (n int)')
        const error = await migrate(database, { folder }).catch((reason: unknown) => reason)
        expect(error).toBeInstanceOf(NewerDatabaseError)
        expect(writeOperatorMessage(error as NewerDatabaseError)).toMatch(
          new RegExp(`^This database was made by a newer version .*${last}`),
        )
      }
    },
  )
})

test.skipIf(!postgresUrl)(
  `a role that may not create tables is named, with the command that helps (${needsPostgres})`,
  async () => {
    const server = String(postgresUrl)
    const name = nameInRun('owned')
    await onServer(server, async (client) => {
      await client.query(`create database ${name}`)
      await client.query(`create role ${name} login`)
    })
    const url = new URL(urlOf(server, name))
    url.username = name
    const database = await openDatabase({ databaseUrl: url.href })
    try {
      await expect(migrate(database)).rejects.toThrow(
        `The role ${name} may not create tables in this database: make it the owner`,
      )
    } finally {
      await database.close()
      await dropDatabase(server, name)
      await onServer(server, (client) => client.query(`drop role ${name}`))
    }
  },
)

test.skipIf(!postgresUrl)(
  `two processes that start together on an empty server both succeed (${needsPostgres})`,
  async () => {
    const server = postgresUrl ?? ''
    const name = nameInRun('twins')
    await onServer(server, (client) => client.query(`create database ${name}`))
    try {
      const script = fileURLToPath(new URL('child-migrator.ts', import.meta.url))
      const runs = await Promise.all(
        [1, 2].map(async () => {
          const child = fork(script, [urlOf(server, name)])
          const [[message], [code]] = await Promise.all([
            once(child, 'message'),
            once(child, 'exit'),
          ])
          return { applied: (message as { applied: string[] }).applied, code }
        }),
      )
      expect(runs.map(({ code }) => code)).toEqual([0, 0])
      expect(runs.flatMap(({ applied }) => applied)).toEqual(shipped)
    } finally {
      await dropDatabase(server, name)
    }
  },
)

describe.skipIf(!postgresUrl)(`beside other processes (${needsPostgres})`, () => {
  const server = postgresUrl ?? ''
  let name: string
  let folder: string
  let database: Database
  beforeEach(async () => {
    name = nameInRun('beside')
    await onServer(server, (client) => client.query(`create database ${name}`))
    folder = await mkdtemp(join(tmpdir(), 'tillbridge-'))
    await writeFile(join(folder, '0001_first.sql'), 'create table sold (n int);')
    database = await openDatabase({ databaseUrl: urlOf(server, name) })
    await migrate(database, { folder })
  })
  afterEach(async () => {
    await database.close()
    await dropDatabase(server, name)
    await rm(folder, { recursive: true })
  })
  const add = (file: string, text: string) => writeFile(join(folder, file), text)
  const columns = async () => {
    const { rows } = await sql<{ name: string }>`
      select column_name as name from information_schema.columns where table_name = 'sold'
      order by ordinal_position`.execute(database.db)
    return rows.map(({ name }) => name)
  }

  test('other processes use a table that is to be changed while a query reads it', async () => {
    await add('0002_index.sql', 'alter table sold add column a int;')
    const reading = Promise.withResolvers<void>()
    const read = Promise.withResolvers<void>()
    const reader = database.transaction(async (trx) => {
      await sql`select from sold`.execute(trx)
      read.resolve()
      await reading.promise
    })
    await read.promise
    const waits: number[] = []
    const warnings: object[] = []
    const applied = await migrate(database, {
      folder,
      log: (_level, fields) => warnings.push(fields),
      sleep: async (ms) => {
        waits.push(ms)
        // Nothing of the attempt keeps them.
        await sql`set lock_timeout = '10ms'; insert into sold values (1)`.execute(database.db)
        if (waits.length < 2) return
        reading.resolve()
        await reader
      },
    })
    expect(applied).toEqual(['0002_index.sql'])
    expect(waits.length).toBe(2)
    expect(warnings).toMatchObject([
      { migration: '0002_index.sql', attempt: 1 },
      { migration: '0002_index.sql', attempt: 2 },
    ])
    expect(await columns()).toEqual(['n', 'a'])
  })

  test('a migration that was killed is completed at the next start', async () => {
    await add('0002_first.sql', 'alter table sold add column a int;')
    await add('0003_long.sql', 'alter table sold add column b int; select pg_sleep(600);')
    const child = fork(fileURLToPath(new URL('child-migrator.ts', import.meta.url)), [
      urlOf(server, name),
      folder,
    ])
    await expect
      .poll(async () => {
        const { rows } =
          await sql`select from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`.execute(
            database.db,
          )
        return rows.length
      })
      .toBe(1)
    child.kill('SIGKILL')
    await once(child, 'exit')
    await add('0003_long.sql', 'alter table sold add column b int;')
    expect(await migrate(database, { folder })).toEqual(['0002_first.sql', '0003_long.sql'])
    expect(await columns()).toEqual(['n', 'a', 'b'])
  })
})
