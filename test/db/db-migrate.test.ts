import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { MigrationError, migrate, migrationsFolder } from '../../src/db/migrate.ts'
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

  test.skipIf(skip)('a database that has them all is asked once, and left alone', async () => {
    const statements = await countStatements(async () => {
      expect(await migrate(database)).toEqual([])
    })
    expect(statements).toEqual(['select name from kysely_migration'])
    const { rows } = await sql`select name from kysely_migration order by name`.execute(database.db)
    expect(rows).toEqual(shipped.map((name) => ({ name })))
  })

  test.skipIf(skip)(
    'a failed migration is named and leaves no trace, nor does one applied before it',
    async () => {
      await writeFile(
        join(folder, '9001_good.sql'),
        'create table good (n int); insert into good values (1);',
      )
      await writeFile(join(folder, '9002_bad.sql'), 'create table bad (n int); select 1/0;')
      const error = await migrate(database, folder).catch((reason: unknown) => reason)
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

  test.skipIf(skip)('several statements in a file, functions too, all run', async () => {
    await writeFile(
      join(folder, '9001_several.sql'),
      `create table several (n int);
       create function plus(n int) returns int language plpgsql as $$ begin return n + 1; end $$; -- a ; in a comment
       insert into several select plus(1);`,
    )
    expect(await migrate(database, folder)).toEqual(['9001_several.sql'])
    expect((await sql`select n from several`.execute(database.db)).rows).toEqual([{ n: 2 }])
  })

  test.skipIf(skip)('a database of a newer version of the service is refused', async () => {
    for (const name of shipped) await rm(join(folder, name))
    await writeFile(join(folder, '0000_other.sql'), 'select 1;')
    await expect(migrate(database, folder)).rejects.toBeInstanceOf(MigrationError)
  })
})

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
