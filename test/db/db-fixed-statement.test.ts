import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { fixedStatement } from '../../src/db/statements.ts'
import { countStatements } from '../support/statements.ts'
import { engines } from './engines.ts'

describe.each(engines)('on $title, a fixed statement', ({ skip, open }) => {
  let database: Database
  beforeAll(async () => {
    if (!skip) database = await open()
  })
  afterAll(() => database?.close())

  const write = fixedStatement<{ name: string; at: Date }, { name: string }>(`
    insert into settings (name, value, updated_at) values (:name, :name::text, :at) returning name`)
  const find = fixedStatement<{ names: string[]; value: string | undefined }, { name: string }>(`
    select name from settings where name = any(:names::text[]) and (:value::text is null or value = :value)
    order by name`)

  test.skipIf(skip)('takes the values of each call by their names, in one round trip', async () => {
    const statements = await countStatements(async () => {
      await write(database.db, { name: 'one', at: new Date() })
      await write(database.db, { name: 'two', at: new Date() })
    })
    expect(statements).toHaveLength(2)
    const names = ['one', 'two', 'three']
    const both = [{ name: 'one' }, { name: 'two' }]
    expect(await find(database.db, { names, value: undefined })).toEqual(both)
    expect(await find(database.db, { names, value: 'two' })).toEqual([{ name: 'two' }])
    expect(await find(database.db, { names: [], value: undefined })).toEqual([])
  })

  test.skipIf(skip)('belongs to the transaction that it is given', async () => {
    const aborted = database.transaction(async (trx) => {
      expect(await write(trx, { name: 'lost', at: new Date() })).toEqual([{ name: 'lost' }])
      throw new Error('no commit')
    })
    await expect(aborted).rejects.toThrow('no commit')
    expect(await find(database.db, { names: ['lost'], value: undefined })).toEqual([])
  })
})
