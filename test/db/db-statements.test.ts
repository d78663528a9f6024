import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { countStatements, recordStatements } from '../support/statements.ts'
import { engines } from './engines.ts'

describe.each(engines)('on $title', ({ skip, open }) => {
  let database: Database
  beforeAll(async () => {
    if (!skip) database = await open()
  })
  afterAll(() => database?.close())

  const ask = (what: string) =>
    sql<{ answer: string }>`select ${what}::text as answer`.execute(database.db)

  test.skipIf(skip)('outside of a transaction a statement is one round trip', async () => {
    const statements = await countStatements(async () => {
      await ask('with a parameter')
      await sql`select 'without one'`.execute(database.db)
    })
    expect(statements).toEqual(['select $1::text as answer', "select 'without one'"])
  })

  test.skipIf(skip)('a transaction is its statements, its beginning and its end', async () => {
    const statements = await countStatements(() =>
      database.transaction(async (trx) => {
        await sql`select ${1}::int`.execute(trx)
        await sql`select ${2}::int`.execute(trx)
      }),
    )
    expect(statements.map((text) => text.toLowerCase().split(' ')[0])).toEqual([
      'begin',
      'select',
      'select',
      'commit',
    ])
  })

  test.skipIf(skip)('what others send meanwhile is not counted as the work’s own', async () => {
    let goOn = () => {}
    const others = new Promise<void>((resolve) => {
      goOn = resolve
    }).then(() => ask('a loop that began before'))
    const { own, background } = await recordStatements(async () => {
      await ask('own')
      goOn()
      await others
      await new Promise<void>((resolve) => {
        setTimeout(() => void ask('gathered, and written later').then(() => resolve()), 5)
      })
      await ask('own again')
    })
    expect(own).toHaveLength(2)
    // What another test has left running may send statements too.
    expect(background.filter((sql) => sql.endsWith('as answer'))).toHaveLength(2)
  })
})
