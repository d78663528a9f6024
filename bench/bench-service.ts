import { randomBytes, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { migrate } from '../src/db/migrate.ts'
import { openDatabase } from '../src/db/open-database.ts'
import { onServer, urlOf } from '../test/support/postgres-template.ts'
import {
  startTestService,
  type TestService,
  type TestServiceOptions,
} from '../test/support/service.ts'
import { openShop, payByCard, type Till } from '../test/support/till.ts'

export type Shop = Till & { terminalId: string }

export type BenchService = {
  service: TestService
  engine: string
  shops: Shop[]
  /** A request over a socket; JSON in, JSON out. Throws for anything but a success. */
  send(method: 'GET' | 'POST', url: string, options?: SendOptions): Promise<Answer>
  /** Address of a path of the service. */
  at(path: string): string
  agent: Agent
}
export type SendOptions = { headers?: Record<string, string>; body?: unknown }
export type Answer = Record<string, unknown>

const server = process.env.DATABASE_URL || process.env.TEST_DATABASE_URL
/** The embedded database takes several times as long, so benchmarks do less on it by default. */
export const isEmbedded = !server

/**
 * Runs `work` with a service and the sandbox provider in this process, on a database of its own: on the PostgreSQL of
 * TEST_DATABASE_URL or DATABASE_URL, or without one embedded.
 */
export async function withService(
  shopCount: number,
  work: (bench: BenchService) => Promise<void>,
  options: Pick<TestServiceOptions, 'ownTime'> = {},
): Promise<void> {
  const name = `tillbridge_bench_${randomBytes(4).toString('hex')}`
  const url = server && urlOf(server, name)
  if (server) await onServer(server, (client) => client.query(`create database ${name}`))
  const database = await openDatabase(url ? { databaseUrl: url } : { inMemory: true })
  const agent = new Agent({ connections: 256 })
  try {
    await migrate(database)
    const limits = { RATE_LIMIT_PER_SECOND: '1000000', AUTH_FAILURES_PER_MINUTE: '1000000' }
    const service = await startTestService({ database, env: limits, ...options })
    const base = await service.app.listen({ host: '127.0.0.1', port: 0 })
    try {
      const shops: Shop[] = []
      for (let index = 0; index < shopCount; index += 1) {
        shops.push(await openShop(service, `shop ${index}`, String(7_500_000 + index)))
      }
      const send: BenchService['send'] = (method, to, options) =>
        sendJson(agent, method, to, options)
      const at = (path: string) => `${base}${path}`
      await work({ service, engine: database.engine, shops, send, at, agent })
    } finally {
      await agent.destroy()
      await service.stop()
    }
  } finally {
    await database.close()
    if (server) {
      await onServer(server, (client) => client.query(`drop database ${name} with (force)`))
    }
  }
}

export async function sendJson(
  agent: Agent,
  method: 'GET' | 'POST',
  to: string,
  { headers = {}, body }: SendOptions = {},
): Promise<Answer> {
  const { statusCode, body: answer } = await request(to, {
    method,
    dispatcher: agent,
    headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
    body: body === undefined ? null : JSON.stringify(body),
  })
  const text = await answer.text()
  if (statusCode >= 300) throw new Error(`${method} ${to}: ${statusCode} ${text}`)
  return JSON.parse(text)
}

/**
 * Tills that each charge at their pace, `perSecond` charges together. The function that is returned charges while `goesOn` and answers
 * how long each charge took, in milliseconds.
 */
export function tillsOf(
  { service, shops, send, at }: Pick<BenchService, 'service' | 'shops' | 'send' | 'at'>,
  perSecond: number,
): (goesOn: () => boolean) => Promise<number[]> {
  /** Frees the shop's terminal, and lets the service see that it is. */
  const pay = async (shop: Shop, orderId: unknown) => {
    const open = service.sandbox
      .ledger()
      .orders.filter((order) => order.status === 'created' && order.terminal_id === shop.terminalId)
    await inLanes(open, 1, async ({ id }) => {
      await send('POST', `${service.sandbox.url}/_sandbox/orders/${id}/act`, { body: payByCard })
    })
    await send('GET', at(`/orders/${orderId}`), { headers: { 'x-api-token': shop.key } })
  }
  const pauseMs = (shops.length * 1_000) / perSecond
  return async (goesOn) => {
    const took: number[] = []
    await Promise.all(
      shops.map(async (shop, place) => {
        await wait((pauseMs / shops.length) * place)
        while (goesOn()) {
          const startedAt = performance.now()
          const { order_id } = await send('POST', at('/orders'), {
            headers: { 'x-api-token': shop.key },
            body: { caja_id: 'CAJA-1', external_reference: randomUUID(), amount: '1234,50' },
          })
          took.push(performance.now() - startedAt)
          await pay(shop, order_id)
          await wait(Math.max(0, pauseMs - (performance.now() - startedAt)))
        }
      }),
    )
    return took
  }
}

/** Goes on for so many seconds from its first call on. */
export function forSeconds(seconds: number): () => boolean {
  let endsAt: number | undefined
  return () => {
    endsAt ??= performance.now() + seconds * 1_000
    return performance.now() < endsAt
  }
}

/** Works on all items, `atOnce` at a time. */
export async function inLanes<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = [...items]
  const lane = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
}

/** User and system time of processes, from the 14th and 15th field of proc_pid_stat(5), in hundredths of a second. */
export function processorMs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return sum + (Number(fields[11]) + Number(fields[12])) * 10
  }, 0)
}

/** The nearest rank. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
}

export const say = (line: string) => process.stdout.write(`${line}\n`)
