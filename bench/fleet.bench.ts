import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { payByCard } from '../test/support/till.ts'
import {
  type BenchService,
  inLanes,
  isEmbedded,
  quantile,
  type Shop,
  say,
  withService,
} from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// What do a thousand boxes cost the tills, whose health is derived beside their charges all the time? The same charges on the
// same number of terminals, in turns: once beside nothing else, and once beside a chain of a thousand boxes with a day of sales.
// Run: npm run bench -- fleet [--rounds n] [--boxes n]; 8 on PostgreSQL, 3 on the embedded database.

const shopCount = 16
const salesOfBox = 10
/** As often as the service derives it. */
const betweenTicksMs = 3_000

const { rounds, boxes } = wholeOptions({ rounds: isEmbedded ? 3 : 8, boxes: 1_000 })

/** Boxes that sell all day, as they stand in the tables, at a client of their own store. */
async function openChain({ service, shops }: BenchService): Promise<void> {
  const client = shops[0]?.client
  const now = service.clock.now()
  await sql`insert into pos (id, client, store_id, external_id, mp_external_id, name, mp_pos_id, state, created_at)
    select gen_random_uuid(), ${client}, stores.id, 'BOX-' || n, 'BOX' || n, 'Box ' || n, 'MP' || n, 'active', ${now}
    from stores, generate_series(1, ${boxes}::integer) as n where client = ${client}`.execute(
    service.database.db,
  )
  await sql`insert into orders (id, client, caja_id, sucursal_id, terminal_id, mp_user_id, external_reference,
      mp_external_reference, reference_attempt, amount_cents, send_ticket_number, print_ticket, payment_method,
      expiration_minutes, creation, mp_order_id, status, created_at, last_updated_at, expires_at)
    select gen_random_uuid(), ${client}, 'BOX-' || n, 'SUC-1', 'T-' || n, 1, n || '-' || sale, n || '-' || sale, 1, 100, true,
      false, 'all', 16, 'confirmed', 'ORD' || n || '-' || sale, 'processed', at, at + interval '9 seconds',
      at + interval '16 minutes'
    from generate_series(1, ${boxes}::integer) as n, generate_series(1, ${salesOfBox}::integer) as sale,
      lateral (select ${now}::timestamptz - sale * interval '1 minute' as at) as moment`.execute(
    service.database.db,
  )
}

/** Milliseconds of each charge of one round; the buyers pay afterwards, which is not timed. */
async function round({ service, shops, send, at }: BenchService): Promise<number[]> {
  const times: number[] = []
  const made: { shop: Shop; orderId: unknown }[] = []
  await inLanes(shops, 1, async (shop) => {
    const beganAt = performance.now()
    const { order_id: orderId } = await send('POST', at('/orders'), {
      headers: { 'x-api-token': shop.key },
      body: { caja_id: 'CAJA-1', external_reference: randomUUID(), amount: '1234,50' },
    })
    times.push(performance.now() - beganAt)
    made.push({ shop, orderId })
  })
  const open = service.sandbox.ledger().orders.filter(({ status }) => status === 'created')
  await inLanes(open, 4, async ({ id }) => {
    await send('POST', `${service.sandbox.url}/_sandbox/orders/${id}/act`, { body: payByCard })
  })
  await inLanes(made, 4, async ({ shop, orderId }) => {
    await send('GET', at(`/orders/${orderId}`), { headers: { 'x-api-token': shop.key } })
  })
  return times
}

/** Derives the health of everything, again and again, until it is ended; answers how long one check took. */
function deriveBeside({ service }: BenchService): { end(): Promise<number> } {
  const ticks: number[] = []
  const stopped = new AbortController()
  const loop = (async () => {
    while (!stopped.signal.aborted) {
      const beganAt = performance.now()
      await service.deps.fleet.tick()
      ticks.push(performance.now() - beganAt)
      await new Promise((resolve) => setTimeout(resolve, betweenTicksMs))
    }
  })()
  return {
    async end() {
      stopped.abort()
      await loop
      return quantile(ticks, 0.5)
    },
  }
}

await withService(shopCount, (few) =>
  withService(shopCount, async (many) => {
    await openChain(many)
    say(`charges on ${few.engine}, ${shopCount} per round, one in hand, ${rounds} rounds in turns`)
    for (const one of [few, many]) {
      await one.service.deps.fleet.tick()
      await round(one)
    }
    const times = { few: [] as number[], many: [] as number[] }
    const ratios: number[] = []
    const checks = { few: [] as number[], many: [] as number[] }
    for (let turn = 0; turn < rounds; turn += 1) {
      for (const [name, one] of [
        ['few', few],
        ['many', many],
      ] as const) {
        const beside = deriveBeside(one)
        const found: number[] = []
        // Long enough that it is derived meanwhile, more than once.
        const until = performance.now() + 2.5 * betweenTicksMs
        while (performance.now() < until) found.push(...(await round(one)))
        checks[name].push(await beside.end())
        times[name].push(quantile(found, 0.5))
      }
      ratios.push((times.many.at(-1) ?? 0) / (times.few.at(-1) ?? 1))
    }
    const median = (list: readonly number[]) => quantile(list, 0.5)
    say(
      `  a charge: beside ${shopCount} boxes ${median(times.few).toFixed(1)} ms, beside ${boxes + shopCount} ` +
        `${median(times.many).toFixed(1)} ms, ratio ${median(ratios).toFixed(2)}`,
    )
    say(
      `  a check of all of them, every ${betweenTicksMs / 1_000} s: ${median(checks.few).toFixed(0)} ms and ${median(checks.many).toFixed(0)} ms`,
    )
  }),
)
