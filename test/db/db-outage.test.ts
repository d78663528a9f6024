import { connect, createServer, type Server, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Database, notify } from '../../src/db/database.ts'
import { DatabaseUnavailableError, isDatabaseUnavailable } from '../../src/db/database-failures.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { postgresDialect } from '../../src/db/postgres-dialect.ts'
import { resilientPool } from '../../src/db/postgres-pool.ts'
import {
  needsPostgres,
  openPostgresClone,
  type PostgresClone,
  postgresUrl,
} from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { onServer } from '../support/postgres-template.ts'

test('a server that is not there is a DatabaseUnavailableError', async () => {
  const databaseUrl = 'postgres://nobody@127.0.0.1:1/none'
  await expect(openDatabase({ databaseUrl })).rejects.toBeInstanceOf(DatabaseUnavailableError)
})

describe.skipIf(!postgresUrl)(`when PostgreSQL is down (${needsPostgres})`, () => {
  let clone: PostgresClone
  let database: Database
  beforeAll(async () => {
    clone = await openPostgresClone(postgresUrl ?? '')
    database = clone.database
  })
  afterEach(() => {
    vi.useRealTimers()
    vi.restoreAllMocks()
  })
  afterAll(() => database?.close())

  /** Ends every session of the database under test; returns how many. */
  const terminateAll = () =>
    onServer(postgresUrl ?? '', async (client) => {
      const name = new URL(clone.url).pathname.slice(1)
      const { rowCount } = await client.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
        [name],
      )
      return rowCount ?? 0
    })

  test('a lock of a session ends with its connection, which the session notices', async () => {
    const [one, two] = await Promise.all([database.openSession(), database.openSession()])
    expect(await one.tryLock(7)).toBe(true)
    expect([await two.tryLock(7), await two.tryLock(8)]).toEqual([false, true])
    await one.unlock(7)
    expect(await two.tryLock(7)).toBe(true)
    expect(one.lost.aborted).toBe(false)
    await terminateAll()
    await eventually(() => expect([one.lost.aborted, two.lost.aborted]).toEqual([true, true]))
    await expect(two.tryLock(9)).rejects.toThrow()
    const next = await database.openSession()
    expect([await next.tryLock(7), await next.tryLock(8)]).toEqual([true, true])
    await next.close()
    expect(next.lost.aborted).toBe(true)
  })

  /** Until the server works on `select pg_sleep(10)`. */
  const untilItSleeps = () =>
    eventually(async () => {
      const { rowCount } = await onServer(postgresUrl ?? '', (client) =>
        client.query(
          `select from pg_stat_activity where datname = $1 and query = 'select pg_sleep(10)' and state = 'active'`,
          [new URL(clone.url).pathname.slice(1)],
        ),
      )
      expect(rowCount).toBe(1)
    })

  const five = () =>
    Promise.all(Array.from({ length: 5 }, () => sql`select pg_sleep(0.02)`.execute(database.db)))

  test('of many idle connections that the server ended at most one query fails', async () => {
    await five()
    expect(await terminateAll()).toBeGreaterThanOrEqual(5)
    const first = await database.ping()
    expect(first || (await database.ping())).toBe(true)
    await five()
  })

  test('an idle connection is verified first, so the query after a restart works at once', async () => {
    const pool = resilientPool(
      { connectionString: clone.url, max: 5 },
      { queryTimeoutMs: 1_000, verifyAfterIdleMs: 0 },
      () => {},
    )
    const db = new Kysely<unknown>({ dialect: postgresDialect(pool) })
    await Promise.all([sql`select pg_sleep(0.02)`.execute(db), sql`select 1`.execute(db)])
    await terminateAll()
    await sql`select 1`.execute(db)
    await db.destroy()
  })

  test('after a connection that failed its verification a new one is used without verification', async () => {
    const proxy = await silentProxy(clone.url)
    const pool = resilientPool(
      { connectionString: proxy.url, max: 1 },
      // Every connection counts as idle, as in a process that stalled after it had connected.
      { queryTimeoutMs: 1_000, verifyAfterIdleMs: -1_000, verifyTimeoutMs: 20 },
      () => {},
    )
    const db = new Kysely<unknown>({ dialect: postgresDialect(pool) })
    await sql`select 1`.execute(db)
    proxy.silent = true
    // Only one query gets no answer; the new connection reaches the server.
    proxy.onSwallow = () => {
      proxy.silent = false
    }
    await sql`select 1`.execute(db)
    expect(proxy.swallowed).toHaveLength(1)
    expect(proxy.connections).toBe(2)
    await db.destroy()
    proxy.server.close()
  })

  test('a running query fails as unavailable, the next one works', async () => {
    const running = expect(sql`select pg_sleep(10)`.execute(database.db)).rejects.toSatisfy(
      isDatabaseUnavailable,
    )
    await untilItSleeps()
    await terminateAll()
    await running
    await sql`select 1`.execute(database.db)
  })

  test('a connection whose end the server announced is not used again, also while its socket is open', async () => {
    const proxy = await silentProxy(clone.url)
    proxy.holdsEnds = true
    const pool = resilientPool(
      { connectionString: proxy.url, max: 1 },
      { queryTimeoutMs: 5_000 },
      () => {},
    )
    const db = new Kysely<unknown>({ dialect: postgresDialect(pool) })
    const running = expect(sql`select pg_sleep(10)`.execute(db)).rejects.toSatisfy(
      isDatabaseUnavailable,
    )
    await untilItSleeps()
    await terminateAll()
    await running
    await sql`select 1`.execute(db)
    await db.destroy()
    proxy.server.close()
    proxy.drop()
  })

  test('a transaction that loses its connection between two statements fails as unavailable', async () => {
    const work = database.transaction(async (trx) => {
      await sql`select 1`.execute(trx)
      await terminateAll()
      await sleep(50)
      await sql`select 1`.execute(trx)
    })
    await expect(work).rejects.toBeInstanceOf(DatabaseUnavailableError)
    await sql`select 1`.execute(database.db)
  })

  test('T16: a transaction that loses its connection before the commit is not reported as committed', async () => {
    const work = database.transaction(async (trx) => {
      await trx
        .insertInto('settings')
        .values({ name: 'lost', value: '', updated_at: new Date() })
        .execute()
      await terminateAll()
      await sleep(50)
    })
    await expect(work).rejects.toBeInstanceOf(DatabaseUnavailableError)
    expect(await database.db.selectFrom('settings').selectAll().execute()).toEqual([])
  })

  test('the listener reconnects by itself', async () => {
    const received: string[] = []
    const end = await database.listen('alone', (payload) => received.push(payload))
    await terminateAll()
    await eventually(async () => {
      await database.transaction((trx) => notify(trx, 'alone', 'again'))
      await sleep(20)
      expect(received).toContain('again')
    })
    await end()
  })

  test('the listener reports a possible gap after it has reconnected', async () => {
    let isReceived = false
    let gaps = 0
    const end = await database.listen(
      'gaps',
      () => {
        isReceived = true
      },
      () => {
        gaps += 1
      },
    )
    // An earlier test may have ended its connection just now.
    await eventually(async () => {
      await database.transaction((trx) => notify(trx, 'gaps', ''))
      expect(isReceived).toBe(true)
    })
    gaps = 0
    await terminateAll()
    await eventually(() => expect(gaps).toBe(1))
    await end()
  })

  test('channels that are added while the server is down are received after it, like the old ones', async () => {
    const received: string[] = []
    const ends = [await database.listen('old', (payload) => received.push(payload))]
    for (let round = 0; round < 3; round++) {
      await terminateAll()
      await sleep(20)
      ends.push(await database.listen(`new${round}`, (payload) => received.push(payload)))
      received.length = 0
      await eventually(async () => {
        await database.transaction(async (trx) => {
          await notify(trx, 'old', 'old')
          await notify(trx, `new${round}`, 'new')
        })
        await sleep(20)
        expect(new Set(received)).toEqual(new Set(['old', 'new']))
      })
    }
    for (const end of ends) await end()
  })

  test('with every connection in use the wait for one ends as unavailable', async () => {
    const pool = resilientPool(
      { connectionString: clone.url, max: 1, connectionTimeoutMillis: 500 },
      { queryTimeoutMs: 0 },
      () => {},
    )
    const db = new Kysely<unknown>({ dialect: postgresDialect(pool) })
    const busy = sql`select pg_sleep(1.5)`.execute(db)
    await expect(sql`select 1`.execute(db)).rejects.toBeInstanceOf(DatabaseUnavailableError)
    await busy
    await sql`select 1`.execute(db)
    await db.destroy()
  })

  test('close waits for queries that wait for a connection', async () => {
    const own = await openDatabase({ databaseUrl: clone.url, maxConnections: 1 })
    const busy = sql`select pg_sleep(0.05)`.execute(own.db)
    const waiting = sql`select 1`.execute(own.db)
    await sleep(10)
    await own.close()
    await Promise.all([busy, waiting])
  })

  test('a server that stops answering makes the query fail, and its connection is closed', async () => {
    const proxy = await silentProxy(clone.url)
    const pool = resilientPool(
      { connectionString: proxy.url, max: 1 },
      { queryTimeoutMs: 100 },
      () => {},
    )
    const db = new Kysely<unknown>({ dialect: postgresDialect(pool) })
    await sql`select 1`.execute(db)
    proxy.silent = true
    const work = db.transaction().execute(async (trx) => {
      await sql`select 1`.execute(trx)
    })
    await expect(work).rejects.toBeInstanceOf(DatabaseUnavailableError)
    proxy.silent = false
    await sql`select 1`.execute(db)
    await db.destroy()
    proxy.server.close()
  })

  test('a query without an answer fails after 20 s, and not before', async () => {
    const proxy = await silentProxy(clone.url)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const own = await openDatabase({ databaseUrl: proxy.url, maxConnections: 1 })
    const sent = new Promise<void>((resolve) => {
      proxy.onSwallow = resolve
    })
    proxy.silent = true
    let failure: unknown
    const query = sql`select 2`.execute(own.db).catch((error: unknown) => {
      failure = error
    })
    await sent
    vi.advanceTimersByTime(19_900)
    await sleep(20)
    expect(failure).toBe(undefined)
    vi.advanceTimersByTime(100)
    await query
    expect(failure).toBeInstanceOf(DatabaseUnavailableError)
    vi.useRealTimers()
    await own.close()
    proxy.server.close()
    proxy.drop()
  })

  test('TCP keep-alive ends a dead connection within 20 s, also one that only listens', async () => {
    const keepAlive = vi.spyOn(Socket.prototype, 'setKeepAlive')
    const connecting = vi.spyOn(Socket.prototype, 'connect')
    const own = await openDatabase({ databaseUrl: clone.url })
    const port = Number(new URL(clone.url).port || 5432)
    // What another test has left running may connect meanwhile, to this server or to another place.
    const connected = () =>
      connecting.mock.contexts.filter(
        (_, call) => Number(connecting.mock.calls[call]?.[0]) === port,
      )
    for (const open of [() => own.listen('alive', () => {}), () => own.openSession()]) {
      const before = connected().length
      await open()
      expect(connected().length).toBeGreaterThan(before)
    }
    for (const socket of connected()) {
      const call = keepAlive.mock.contexts.indexOf(socket)
      // Ten probes follow, one a second.
      expect(keepAlive.mock.calls[call]).toEqual([true, 10_000])
    }
    await own.close()
  })

  test('a channel that is added on a dead connection is received, like the others', async () => {
    const proxy = await silentProxy(clone.url)
    const own = await openDatabase({ databaseUrl: proxy.url })
    const received = new Set<string>()
    await own.listen('before', (payload) => received.add(payload))
    proxy.killWays()
    await own.listen('after', (payload) => received.add(payload))
    await eventually(async () => {
      await database.transaction(async (trx) => {
        await notify(trx, 'before', 'before')
        await notify(trx, 'after', 'after')
      })
      await sleep(50)
      expect(received).toEqual(new Set(['before', 'after']))
    })
    await own.close()
    proxy.server.close()
    proxy.drop()
  }, 20_000)

  test('of many idle connections to a server that stopped answering only one is waited for', async () => {
    const proxy = await silentProxy(clone.url)
    const pool = resilientPool(
      { connectionString: proxy.url, max: 4, connectionTimeoutMillis: 1_000 },
      { queryTimeoutMs: 1_000, verifyAfterIdleMs: 0, verifyTimeoutMs: 50 },
      () => {},
    )
    const db = new Kysely<unknown>({ dialect: postgresDialect(pool) })
    await Promise.all(Array.from({ length: 4 }, () => sql`select pg_sleep(0.05)`.execute(db)))
    proxy.silent = true
    await expect(sql`select 2`.execute(db)).rejects.toBeInstanceOf(DatabaseUnavailableError)
    expect(proxy.swallowed.filter((text) => text.includes('select 1'))).toHaveLength(1)
    await db.destroy()
    proxy.server.close()
  })
})

type Proxy = {
  url: string
  silent: boolean
  /** The client's socket stays open after the server's end, as on a busy machine. */
  holdsEnds: boolean
  swallowed: string[]
  onSwallow: () => void
  connections: number
  /** From now on nothing passes on the connections there are; new ones are well. */
  killWays: () => void
  server: Server
  drop: () => void
}

/** Passes bytes on to the server of `url`; while `silent` it swallows them, as a network that has lost the way does. */
async function silentProxy(url: string): Promise<Proxy> {
  const target = new URL(url)
  const upstreamPort = Number(target.port || 5432)
  const upstreamHost = target.hostname
  let deadUntil = 0
  const pass = (from: Socket, to: Socket, number: number) => {
    from.on('data', (bytes) => {
      if (number <= deadUntil) return
      if (proxy.silent) {
        proxy.swallowed.push(bytes.toString('latin1'))
        proxy.onSwallow()
      } else if (to.writable) {
        to.write(bytes)
      }
    })
    from.on('error', () => {})
  }
  const clients = new Set<Socket>()
  const server = createServer((client) => {
    proxy.connections += 1
    clients.add(client)
    const upstream = connect(upstreamPort, upstreamHost)
    pass(client, upstream, proxy.connections)
    pass(upstream, client, proxy.connections)
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => {
      if (!proxy.holdsEnds) client.destroy()
    })
  })
  const drop = () => {
    for (const client of clients) client.destroy()
  }
  const proxy: Proxy = {
    url: '',
    silent: false,
    holdsEnds: false,
    swallowed: [],
    onSwallow: () => {},
    connections: 0,
    killWays: () => {
      deadUntil = proxy.connections
    },
    server,
    drop,
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  target.hostname = '127.0.0.1'
  target.port = String(port)
  proxy.url = target.href
  return proxy
}
