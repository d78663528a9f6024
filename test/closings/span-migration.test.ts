/** @module-tag long */
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../src/db/database.ts'
import { migrate, migrationsFolder } from '../../src/db/migrate.ts'
import { asClientName } from '../../src/domain/client-name.ts'
import {
  findLastClosing,
  findRequestedClosing,
  insertClosing,
  isSpanRaced,
  type NewClosing,
} from '../../src/repositories/closings/closing-queries.ts'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { newPgliteTemplate } from '../support/pglite-template.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'

const migration = '0089_closing_spans.sql'
const client = asClientName('acme')
const place = { client, place: 'caja:CAJA-1' }
const at = (hour: number) => new Date(Date.UTC(2026, 10, 20, hour))

/** Databases without a migration. */
const engines = [
  {
    title: 'pglite',
    skip: false,
    open: async () => openDatabase({ inMemory: true, loadDataDir: await newPgliteTemplate() }),
  },
  {
    title: postgresUrl ? 'postgres' : `postgres (${needsPostgres})`,
    skip: !postgresUrl,
    open: async () => {
      const server = postgresUrl ?? ''
      const name = nameInRun('spans')
      await onServer(server, (connection) => connection.query(`create database ${name}`))
      const database = await openDatabase({ databaseUrl: urlOf(server, name) })
      const close = async () => {
        await database.close()
        await dropDatabase(server, name)
      }
      return { ...database, close }
    },
  },
]

describe.each(engines)('on $title', ({ skip, open }) => {
  let database: Database
  beforeEach(async () => {
    if (skip) return
    database = await open()
    const folder = await mkdtemp(join(tmpdir(), 'tillbridge-migrations-'))
    for (const name of await readdir(migrationsFolder)) {
      if (name < migration) await cp(join(migrationsFolder, name), join(folder, name))
    }
    await migrate(database, { folder })
    await rm(folder, { recursive: true })
    await sql`insert into clients (name, created_at) values ('acme', now())`.execute(database.db)
  })
  afterEach(() => database?.close())

  /** Inserts a closing as a process of the version before does. */
  const insertAsBefore = (number: number, from: number, to: number, state = 'agreed') =>
    sql`insert into closings (id, client, place, number, caja_id, sucursal_id, mp_user_id, business_day, from_at, to_at,
        time_zone, declared, state, result, created_at, signed_at)
      values (gen_random_uuid(), 'acme', 'caja:CAJA-1', ${number}, 'CAJA-1', 'SUC-1', 1, '2026-11-20', ${at(from)},
        ${at(to)}, 'UTC', '{}', ${state}, ${state === 'signed' ? 'agreed' : null}, now(),
        ${state === 'signed' ? at(to) : null})`.execute(database.db)

  const newClosing = (from: number, to: number): NewClosing => ({
    id: crypto.randomUUID(),
    client,
    place: place.place,
    caja_id: 'CAJA-1',
    sucursal_id: 'SUC-1',
    mp_user_id: 1,
    business_day: '2026-11-20',
    from_at: at(from),
    to_at: at(to),
    requested_from: at(from),
    requested_to: at(to),
    time_zone: 'UTC',
    declared: {},
    created_at: at(to),
    next_check_at: at(to),
  })

  test.skipIf(skip)(
    'closings that overlap stay unchanged, and the next one follows the last',
    async () => {
      await insertAsBefore(1, 0, 10, 'signed')
      await insertAsBefore(2, 5, 15)
      await insertAsBefore(3, 8, 15, 'signed')
      await insertAsBefore(4, 20, 21, 'signed')
      const rows = () =>
        sql<{
          row: object
        }>`select to_jsonb(closings) as row from closings order by number`.execute(database.db)
      const before = (await rows()).rows
      const changes = () =>
        sql`select * from closing_changes order by closing_id`.execute(database.db)
      const changesBefore = (await changes()).rows
      expect(await migrate(database)).toContain(migration)
      const after = (await rows()).rows
      expect(after).toMatchObject(before)
      expect(after.map(({ row }) => 'next_from' in row && row.next_from !== null)).toEqual([
        false,
        false,
        false,
        true,
      ])
      expect((await changes()).rows).toEqual(changesBefore)

      await database.transaction(async (trx) => {
        expect((await findLastClosing(trx, place))?.number).toBe(4)
      })
      const tooEarly = database.transaction((trx) => insertClosing(trx, newClosing(15, 20)))
      await expect(tooEarly).rejects.toSatisfy(isSpanRaced)
      const next = await database.transaction((trx) => insertClosing(trx, newClosing(21, 22)))
      expect(next).toMatchObject({ number: 5, follows_at: at(21), next_from: at(22) })
      const extended = sql`update closings set to_at = ${at(16)} where number = 2`
      await expect(extended.execute(database.db)).rejects.toMatchObject({ code: '23001' })
      await sql`update closings set declared = '{"qr": 1}' where number = 2`.execute(database.db)
    },
  )

  test.skipIf(skip)(
    'the database applies the rules of spans to a process of the version before',
    async () => {
      await migrate(database)
      await insertAsBefore(1, 0, 10)
      await insertAsBefore(2, 10, 12)
      for (const [from, to] of [
        [11, 13],
        [13, 14],
        [0, 10],
      ] as const) {
        await expect(insertAsBefore(3, from, to)).rejects.toSatisfy(isSpanRaced)
      }
      await sql`update closings set to_at = ${at(13)} where number = 2`.execute(database.db)
      await insertAsBefore(3, 13, 14)
    },
  )

  test.skipIf(skip)('a day that was closed before the migration is found by its day', async () => {
    await insertAsBefore(1, 0, 10)
    await migrate(database)
    const span = { isDay: true, from: at(0), to: at(24), until: at(24) }
    const of = (businessDay: string) =>
      database.transaction((trx) => findRequestedClosing(trx, place, { ...span, businessDay }))
    expect((await of('2026-11-20'))?.number).toBe(1)
    expect(await of('2026-11-21')).toBeUndefined()
    const times = { ...span, isDay: false, businessDay: '2026-11-20' }
    const found = database.transaction((trx) => findRequestedClosing(trx, place, times))
    expect(await found).toBeUndefined()
  })
})
