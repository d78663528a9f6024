import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from 'kysely'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { DatabaseUnavailableError } from '../../src/db/database-failures.ts'
import type { Tables } from '../../src/db/tables.ts'
import { createAnnouncer, insideTransaction, whenCommitted } from '../../src/db/transactions.ts'
import { eventually } from '../support/eventually.ts'
import { countStatements, recordStatements } from '../support/statements.ts'
import { engines } from './engines.ts'

describe.each(engines)('on $title', ({ skip, open }) => {
  let database: Database
  beforeAll(async () => {
    if (!skip) database = await open()
  })
  afterAll(() => database?.close())

  async function listen(channel: string) {
    const received: string[] = []
    const end = await database.listen(channel, (payload) => received.push(payload))
    return { received, end }
  }

  test.skipIf(skip)(
    'an announcement in a transaction is sent after its commit, by no statement of the transaction',
    async () => {
      const { received, end } = await listen('committed')
      const own = await countStatements(() =>
        database.transaction(async (trx) => {
          database.announce('committed', 'a')
          database.announce('committed', 'b')
          await sql`select ${1}::int`.execute(trx)
          expect(received).toEqual([])
        }),
      )
      expect(own.filter((text) => text.includes('pg_notify'))).toEqual([])
      await eventually(() => expect(received).toEqual(['a', 'b']))
      await end()
    },
  )

  test.skipIf(skip)('the embedded database announces without a statement', async () => {
    const { received, end } = await listen('here')
    const { own, background } = await recordStatements(async () => {
      database.announce('here', 'a')
      await eventually(() => expect(received).toEqual(['a']))
    })
    const notifies = [...own, ...background].filter((text) => text.includes('pg_notify'))
    expect(notifies).toHaveLength(database.engine === 'pglite' ? 0 : 1)
    await end()
  })

  test.skipIf(skip)(
    'a listener that has ended receives nothing, and the others still do',
    async () => {
      const [one, other] = [await listen('ended'), await listen('ended')]
      await one.end()
      database.announce('ended', 'a')
      await eventually(() => expect(other.received).toEqual(['a']))
      expect(one.received).toEqual([])
      await other.end()
    },
  )

  test.skipIf(skip)('an announcement in a failed transaction is not sent', async () => {
    const { received, end } = await listen('failed')
    const failed = database.transaction(async () => {
      database.announce('failed', 'never')
      throw new Error('on purpose')
    })
    await expect(failed).rejects.toThrow('on purpose')
    database.announce('failed', 'afterwards')
    await eventually(() => expect(received).toEqual(['afterwards']))
    await end()
  })

  test.skipIf(skip)('an announcement that is too long does not block the others', async () => {
    const { received, end } = await listen('long')
    database.announce('long', 'x'.repeat(8_000))
    database.announce('long', 'short')
    await eventually(() => expect(received).toEqual(['short']))
    await end()
  })

  test.skipIf(skip)(
    'an announcement that could not be sent is sent with the next one',
    async () => {
      const { received, end } = await listen('later')
      let isDown = true
      const db = new Proxy(database.db, {
        get: (of, name) => {
          if (isDown) throw new DatabaseUnavailableError('away')
          const value = Reflect.get(of, name)
          return typeof value === 'function' ? value.bind(of) : value
        },
      })
      const logged: string[] = []
      const announcer = createAnnouncer(db, (_, __, message) => logged.push(message))
      announcer.announce('later', 'first')
      await eventually(() => expect(logged).toHaveLength(1))
      isDown = false
      announcer.announce('later', 'second')
      await announcer.close()
      await eventually(() => expect(received).toEqual(['first', 'second']))
      await end()
    },
  )
})

test('announcements of a busy service are sent by one statement every 25 ms, and the first one after 4 ms', async () => {
  const sent: [number, string[]][] = []
  const db = new Kysely<Tables>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (kysely) => new PostgresIntrospector(kysely),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log({ query }) {
      const payloads = JSON.parse(String(query.parameters[0])).map(
        (one: { payload: string }) => one.payload,
      )
      sent.push([Math.round(performance.now() - begunMs), payloads])
    },
  })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  const begunMs = performance.now()
  try {
    const announcer = createAnnouncer(db, () => undefined)
    for (let ms = 0; ms < 60; ms += 10) {
      announcer.announce('busy', String(ms))
      await vi.advanceTimersByTimeAsync(10)
    }
    await vi.advanceTimersByTimeAsync(100)
    announcer.announce('busy', 'later')
    await vi.advanceTimersByTimeAsync(4)
    await announcer.close()
  } finally {
    vi.useRealTimers()
  }
  expect(sent).toEqual([
    [4, ['0']],
    [29, ['10', '20']],
    [54, ['30', '40', '50']],
    [164, ['later']],
  ])
})

test('an announcement in a transaction with an unknown commit is sent', async () => {
  const sent: string[] = []
  const announcing = insideTransaction(async (inside) => {
    await inside(async () => {
      whenCommitted(() => sent.push('x'))
    })
    throw new DatabaseUnavailableError('the answer to the commit is lost')
  })
  await expect(announcing).rejects.toBeInstanceOf(DatabaseUnavailableError)
  expect(sent).toEqual(['x'])
})
