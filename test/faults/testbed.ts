import { Agent } from 'undici'
import type { LedgerOrder } from '../../sandbox/ledger.ts'
import type { Database } from '../../src/db/database.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { openShop, sandboxCall, type Till } from '../support/till.ts'
import type { ScopedRule } from './fault-plan.ts'
import { interruptible, movableMonotonicTime } from './interruption.ts'

/** Schedules that one seed plays together, each in a shop of its own. */
export const shopsAtOnce = 25

export type Shop = Till & { terminalId: string }

/** Three services in one process on one database and one clock, the sandbox provider, and shops to charge in. */
export type Testbed = {
  services: readonly [TestService, TestService]
  /** The third service: its requests stall or lose their database, and its sweeper does not run. Its wall clock is wrong. */
  interrupted: TestService
  /** Base addresses of the two; tills come over real sockets. */
  urls: readonly [string, string]
  shops: Shop[]
  agent: Agent
  clock: TestService['clock']
  database: Database
  /** The provider's orders from this number on. */
  providerOrders(from?: number): LedgerOrder[]
  /** Replaces this shop by a new one. */
  replaceShop(index: number): Promise<void>
  /** Replaces all rules of faults of the provider; an empty list ends all faults. */
  addFaults(rules: readonly ScopedRule[]): Promise<void>
  /** One round of both sweepers at once, `ms` later. */
  sweepAfter(ms: number): Promise<void>
  /** The same, and the monotonic time of the processes advances, too. */
  passTime(ms: number): Promise<void>
  stop(): Promise<void>
}

export async function openTestbed(database: Database, shopCount: number): Promise<Testbed> {
  const env = {
    // Long enough for a busy machine, short enough to wait for in real time.
    PROVIDER_TIMEOUT_MS: '1500',
    AUTH_FAILURES_PER_MINUTE: '1000000',
  }
  const first = await startTestService({ database, env })
  const second = await startTestService({ twinOf: first, env })
  // A process that uses its own wall clock is wrong from the start.
  first.clock.advance(7 * 3600_000)
  const startedAt = first.clock.now().getTime()
  const interrupted = await startTestService({
    twinOf: first,
    // Its own wall clock, which does not follow the jumps of the shared one.
    ownTime: true,
    monotonicMs: () => first.clock.now().getTime() - startedAt,
    database: interruptible(database, first.clock.now),
    env,
  })
  const monotonic = movableMonotonicTime()
  const urls = [await listen(first), await listen(second)] as const
  const shops: Shop[] = []
  let opened = 0
  const newShop = () => {
    opened += 1
    return openShop(first, `shop ${opened}`, String(7_500_000 + opened))
  }
  for (let index = 0; index < shopCount; index += 1) shops.push(await newShop())
  first.sandbox.setWebhookUrl(`${urls[0]}/webhooks`)
  const agent = new Agent({ connections: 64 })
  const services = [first, second] as const
  const sweepAfter = async (ms: number) => {
    first.clock.advance(ms)
    await Promise.all(services.map((service) => service.sweeper.sweepOnce()))
  }
  return {
    services,
    interrupted,
    urls,
    shops,
    agent,
    clock: first.clock,
    database,
    providerOrders: (from = 0) => first.sandbox.ledger().orders.slice(from),
    async replaceShop(index) {
      shops[index] = await newShop()
    },
    async addFaults(rules) {
      await sandboxCall(first, 'PUT', '/_sandbox/faults', rules)
    },
    sweepAfter,
    async passTime(ms) {
      monotonic.advance(ms)
      await sweepAfter(ms)
    },
    async stop() {
      monotonic.restore()
      await agent.destroy()
      await interrupted.stop()
      await second.stop()
      await first.stop()
    },
  }
}

async function listen(service: TestService): Promise<string> {
  return service.app.listen({ host: '127.0.0.1', port: 0 })
}
