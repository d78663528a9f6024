import { escapeIdentifier } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { UnfitDatabaseError } from '../../src/db/database-failures.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'

/** In a database of the encoding that `createdb` takes from many machines every charge would fail. */
test.skipIf(!postgresUrl).each(['WIN1252', 'SQL_ASCII'])(
  `a database that keeps texts as %s is refused at the start, with what to do (${needsPostgres})`,
  async (encoding) => {
    const server = postgresUrl ?? ''
    const name = nameInRun('encoding')
    await onServer(server, (client) =>
      client.query(
        `create database ${escapeIdentifier(name)} encoding '${encoding}' locale 'C' template template0`,
      ),
    )
    onTestFinished(() => dropDatabase(server, name))
    const opened = openDatabase({ databaseUrl: urlOf(server, name) })
    onTestFinished(() =>
      opened.then(
        (database) => database.close(),
        () => {},
      ),
    )
    await expect(opened).rejects.toBeInstanceOf(UnfitDatabaseError)
    await expect(opened).rejects.toThrow(
      new RegExp(`${encoding}.*create database "${name}_utf8" encoding 'UTF8'`),
    )
  },
)
