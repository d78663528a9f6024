import { type ChildProcess, fork } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { Client, type Pool } from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { overHttp } from '../../test/faults/process-testbed.ts'
import { freePort, type RealProcess, startService } from '../../test/process/real-process.ts'
import { onServer, urlOf } from '../../test/support/postgres-template.ts'
import { adminToken, type TestService } from '../../test/support/service.ts'
import { asAdmin, openShopThroughApi, type Till } from '../../test/support/till.ts'
import { schema } from './schema.ts'

/** A shop with one box and a free terminal. */
export type Shop = Till & { terminalId: string }

export type Provider = {
  url: string
  info: { client_id: string; client_secret: string; webhook_secrets: string[] }
  /** Sends a request to it, in the form of the sandbox of a test. */
  inject(request: {
    method: string
    url: string
    headers: Record<string, string>
    payload?: string
  }): Promise<{ statusCode: number; payload: string }>
  stop(): void
}

/** Whoever is asked: the addresses of its processes, in turn, and its database. */
export type Contender = { urls: string[]; pids: number[]; shops: Shop[]; databaseUrl: string }

/** Starts a script of this folder; resolves with what it sends first. */
async function start<Ready extends object>(
  script: string,
  env: Record<string, string> = {},
): Promise<Ready & { pid: number; stop(): void }> {
  const child: ChildProcess = fork(new URL(script, import.meta.url), {
    env: { PATH: process.env.PATH, ...env },
  })
  const ready = await new Promise<Ready>((resolve, reject) => {
    child.once('message', (message) => resolve(message as Ready))
    child.once('exit', (code) => reject(new Error(`${script} ended: ${code}`)))
  })
  return { ...ready, pid: child.pid as number, stop: () => child.disconnect() }
}

export async function startProvider(): Promise<Provider> {
  const provider = await start<Omit<Provider, 'inject'>>('provider.ts')
  return {
    ...provider,
    async inject({ method, url, headers, payload }) {
      const body = payload ?? null
      const response = await fetch(provider.url + url, { method, headers, body })
      return { statusCode: response.status, payload: await response.text() }
    },
  }
}

/** A database of its own on the server, dropped by `drop`. */
export async function createDatabase(
  server: string,
): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `tillbridge_bench_${randomBytes(4).toString('hex')}`
  await onServer(server, (client) => client.query(`create database ${name}`))
  return {
    url: urlOf(server, name),
    drop: async () => {
      await onServer(server, (client) =>
        client.query(`drop database if exists ${name} with (force)`),
      )
    },
  }
}

export type Product = Contender & {
  /** As the preparations of a shop want it. */
  service: TestService
  stop(): Promise<void>
}

/** The real service in `processes` processes on one database, with its own shops. */
export async function startProduct(
  databaseUrl: string,
  provider: Provider,
  options: { processes: number; shops: number; firstAccount: number },
): Promise<Product> {
  const database = await openDatabase({ databaseUrl })
  await migrate(database)
  const encryptionKeys = `k1:${randomBytes(32).toString('base64')}`
  const running: RealProcess[] = []
  for (let number = 0; number < options.processes; number += 1) {
    running.push(
      await startService({
        PORT: String(await freePort()),
        SYNC_PORT: '0',
        DATABASE_URL: databaseUrl,
        PROVIDER: 'sandbox',
        MP_API_URL: provider.url,
        MP_AUTH_URL: provider.url,
        ADMIN_TOKEN: adminToken,
        ENCRYPTION_KEYS: encryptionKeys,
        POS_CREATE_DELAY_MS: '0',
        LOG_LEVEL: 'warn',
        RATE_LIMIT_PER_SECOND: '1000000',
        AUTH_FAILURES_PER_MINUTE: '1000000',
      }),
    )
  }
  const urls = running.map(({ url }) => url)
  const service = overHttp(urls[0] ?? '', { database, sandbox: provider })
  const shops: Shop[] = []
  for (let index = 0; index < options.shops; index += 1) {
    shops.push(
      await openShopThroughApi(service, `shop ${index}`, String(options.firstAccount + index)),
    )
  }
  return {
    urls,
    pids: running.map(({ child }) => child.pid as number),
    shops,
    databaseUrl,
    service,
    async stop() {
      for (const { child } of running) child.kill('SIGTERM')
      await Promise.all(running.map(({ ended }) => ended))
      await database.close()
    },
  }
}

/** One of the programs beside it; its shops use the accounts and terminals of the product's, which take turns with them. */
export async function startPeer(
  script: 'hand-written.ts' | 'dbos-till.ts',
  databaseUrl: string,
  provider: Provider,
  product: Product,
): Promise<Contender & { stop(): void }> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query(schema)
  const boxes = await product.service.database.db
    .selectFrom('pos')
    .select(['client', 'mp_pos_id'])
    .execute()
  const boxOf = new Map<string, string | null>(boxes.map((box) => [box.client, box.mp_pos_id]))
  for (const shop of product.shops) {
    const path = `/admin/clients/${encodeURIComponent(shop.client)}`
    const token = (await asAdmin(product.service, { url: path })).json().oauth.access_token
    const hash = createHash('sha256').update(shop.key).digest('hex')
    await client.query('insert into shops values ($1, $2, $3)', [shop.client, hash, token])
    await client.query('insert into boxes values ($1, $2, $3)', [
      shop.client,
      'CAJA-1',
      boxOf.get(shop.client),
    ])
  }
  await client.end()
  const peer = await start<{ url: string }>(script, {
    DATABASE_URL: databaseUrl,
    PROVIDER_URL: provider.url,
    WEBHOOK_SECRET: provider.info.webhook_secrets[0] ?? '',
  })
  return { urls: [peer.url], pids: [peer.pid], shops: product.shops, databaseUrl, stop: peer.stop }
}

/** A million ended orders of these shops, with five events and three audit entries each. Takes some minutes. */
export async function fill(pool: Pool, shops: readonly Shop[], orders = 1_000_000): Promise<void> {
  const clients = shops.map(({ client }) => client)
  const accounts = shops.map(({ mpUserId }) => mpUserId)
  await pool.query(
    `insert into orders (id, client, caja_id, sucursal_id, terminal_id, mp_user_id, external_reference,
       mp_external_reference, reference_attempt, amount_cents, send_ticket_number, print_ticket, payment_method,
       expiration_minutes, creation, mp_order_id, status, version, paid_cents, created_at, last_updated_at, expires_at)
     select gen_random_uuid(), ($1::text[])[1 + n % $3], 'CAJA-1', 'SUC-1', 'OLD_TERMINAL', ($2::bigint[])[1 + n % $3],
       'old ' || n, 'old' || n, 1, 100 + n, false, false, 'all', 16, 'confirmed', 'ORDOLD' || n, 'processed', 4, 100 + n,
       at, at, at
     from (select n, now() - n * interval '20 seconds' as at from generate_series(1, $4::int) as n) as old`,
    [clients, accounts, shops.length, orders],
  )
  await pool.query(
    `insert into order_events (order_id, client, at, source, from_status, to_status, version)
     select id, client, created_at, 'webhook', 'created', 'processed', step
     from orders, generate_series(1, 5) as step where mp_order_id like 'ORDOLD%'`,
  )
  await pool.query(
    `insert into activity_log (id, client_name, action, resource_type, resource_id, status, metadata, duration_ms, created_at,
       mac)
     select gen_random_uuid(), client, 'order.created', 'order', id::text, 'success', '{}', 12, created_at, repeat('0', 64)
     from orders, generate_series(1, 3) where mp_order_id like 'ORDOLD%'`,
  )
  for (const table of ['orders', 'order_events', 'activity_log']) {
    await pool.query(`vacuum analyze ${table}`)
  }
}
