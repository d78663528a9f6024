import { expect, test } from 'vitest'
import type { ClientName } from '../../src/domain/client-name.ts'
import { deriveHealth } from '../../src/fleet/fleet-health.ts'
import { isProblem } from '../../src/fleet/health-states.ts'
import type { ChargeSeen } from '../../src/fleet/observations.ts'
import { boxSeen, connectionSeen, observed } from './seen.ts'

const seed = 20_261_121
const chargesOfAll = 10_000
const boxesOfAll = 50
/** Intervals of status checks while a charge is young, and of deriving states. */
const pollMs = 2_000
const deriveMs = 3_000

/** Numbers from 0 to 1 that are the same at every run (mulberry32). */
function randomOf(start: number): () => number {
  let state = start
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

type Simulated = {
  at: number
  /** When the terminal shows it; never, for a terminal that is off. */
  shownAt: number
  endAt: number
  status: ChargeSeen['status']
}

/**
 * A charge of a shop: a terminal polls every two or three seconds over a network that is mostly fast and sometimes loses a few
 * seconds. Customers take from seconds to minutes; some payments are declined, some charges are left or canceled at once.
 */
function simulate(at: number, random: () => number, isOff: boolean): Simulated {
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  const network = random() < 0.05 ? 1_000 * Math.exp(1 + 0.6 * normal()) : 0
  const fetchMs = 500 + 2_500 * random() + 300 * Math.exp(0.8 * normal()) + network
  const shownAt = isOff ? Number.POSITIVE_INFINITY : at + fetchMs
  const payMs = 8_000 * Math.exp(0.7 * normal())
  const luck = random()
  if (isOff) return { at, shownAt, endAt: at + 90_000, status: 'canceled' }
  if (luck < 0.04) return { at, shownAt, endAt: at + 1_500 * random(), status: 'canceled' }
  if (luck < 0.12) return { at, shownAt, endAt: shownAt + payMs, status: 'failed' }
  if (luck < 0.15) return { at, shownAt, endAt: shownAt + 60_000, status: 'canceled' }
  return { at, shownAt, endAt: shownAt + payMs, status: 'processed' }
}

/** What is recorded of a charge at a time. */
function seenAt(one: Simulated, now: number): ChargeSeen {
  const date = (ms: number) => new Date(ms)
  const lastCheck = one.at + Math.floor((Math.min(now, one.endAt) - one.at) / pollMs) * pollMs
  const isShown = one.shownAt <= Math.min(lastCheck, one.endAt)
  const hasEnded = one.endAt <= now
  const showsLife = hasEnded && (one.status === 'processed' || one.status === 'failed')
  return {
    orderId: String(one.at),
    reference: String(one.at),
    terminalId: 'T-1',
    status: hasEnded ? one.status : isShown ? 'at_terminal' : 'created',
    creation: 'confirmed',
    createdAt: date(one.at),
    confirmedAt: date(one.at + 300),
    lifeAt: isShown ? date(one.shownAt) : showsLife ? date(one.endAt) : null,
    checkedAt: lastCheck > one.at ? date(lastCheck) : null,
    changedAt: date(hasEnded ? one.endAt : isShown ? one.shownAt : one.at),
    endedAt: hasEnded ? date(one.endAt) : null,
    expiresAt: date(one.at + 900_000),
    isGivenUp: hasEnded && one.status === 'canceled',
    doubt: null,
    settledAs: null,
  }
}

function healthAt(charges: readonly Simulated[], now: number) {
  const newest = charges
    .filter(({ at }) => at <= now)
    .slice(-4)
    .reverse()
    .map((one) => seenAt(one, now))
  const date = new Date(now)
  const seen = observed({
    boxes: [boxSeen({ client: 'acme' as ClientName, charges: newest })],
    connections: [connectionSeen({ expiresAt: new Date(now + 1e10) })],
  })
  return deriveHealth(seen, date).boxes[0] as NonNullable<
    ReturnType<typeof deriveHealth>['boxes'][0]
  >
}

test(`under 1 % false alarms over ${chargesOfAll} charges of a day (seed ${seed})`, {
  tags: ['long'],
}, () => {
  const random = randomOf(seed)
  let alarms = 0
  const causes = new Map<string | null, number>()
  for (let box = 0; box < boxesOfAll; box += 1) {
    const charges: Simulated[] = []
    let at = Date.UTC(2026, 10, 21, 12)
    for (let count = 0; count < chargesOfAll / boxesOfAll; count += 1) {
      const one = simulate(at, random, false)
      charges.push(one)
      // On average 40 an hour, and independent, so that a box sometimes has a long pause.
      at = Math.max(one.endAt, one.shownAt) + 1_000 - Math.log(1 - random()) * 75_000
    }
    let wasProblem = false
    let begun = 0
    for (let now = (charges[0]?.at ?? 0) + deriveMs; now < at; now += deriveMs) {
      while ((charges[begun]?.at ?? now + 1) <= now) begun += 1
      const health = healthAt(charges.slice(Math.max(0, begun - 4), begun), now)
      const isProblemNow = isProblem(health)
      if (isProblemNow && !wasProblem) {
        alarms += 1
        causes.set(health.cause, (causes.get(health.cause) ?? 0) + 1)
      }
      wasProblem = isProblemNow
    }
  }
  expect(alarms / chargesOfAll, JSON.stringify([...causes])).toBeLessThan(0.01)
})

test('a terminal that is switched off is detected within 30 s of its first charge, whenever the checks happen', () => {
  const random = randomOf(seed)
  for (let box = 0; box < 1_000; box += 1) {
    const start = Date.UTC(2026, 10, 21, 12) + Math.floor(random() * 60_000)
    const before = simulate(start, random, false)
    const at = Math.max(before.endAt, before.shownAt) + 60_000 * random()
    const charges = [before, simulate(at, random, true)]
    const firstDerived = at + deriveMs * random()
    let detectedAt: number | undefined
    for (let now = firstDerived; detectedAt === undefined && now < at + 60_000; now += deriveMs) {
      if (healthAt(charges, now).cause === 'terminal_silent') detectedAt = now
    }
    expect((detectedAt ?? Number.POSITIVE_INFINITY) - at).toBeLessThanOrEqual(30_000)
  }
})
