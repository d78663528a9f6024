import type { ClientName } from '../../src/domain/client-name.ts'
import { deriveHealth } from '../../src/fleet/fleet-health.ts'
import type { BoxHealth } from '../../src/fleet/health-states.ts'
import type {
  BoxSeen,
  ChargeSeen,
  ConnectionSeen,
  Observations,
} from '../../src/fleet/observations.ts'

/** Saturday, five past ten. */
export const now = new Date('2026-11-21T13:05:00.000Z')
export const ago = (seconds: number): Date => new Date(now.getTime() - seconds * 1000)
export const client = 'acme' as ClientName

let orders = 0

/** A charge that was paid a minute ago; `over` replaces fields. */
export function chargeSeen(over: Partial<ChargeSeen> = {}): ChargeSeen {
  const createdAt = over.createdAt ?? ago(60)
  orders += 1
  return {
    orderId: `order-${orders}`,
    reference: `0001-${orders}`,
    terminalId: 'T-1',
    status: 'processed',
    creation: 'confirmed',
    createdAt,
    confirmedAt: createdAt,
    lifeAt: new Date(createdAt.getTime() + 2_000),
    checkedAt: new Date(createdAt.getTime() + 4_000),
    changedAt: new Date(createdAt.getTime() + 4_000),
    endedAt: new Date(createdAt.getTime() + 4_000),
    expiresAt: new Date(createdAt.getTime() + 900_000),
    isGivenUp: false,
    doubt: null,
    settledAs: null,
    ...over,
  }
}

/** A charge that the provider has and no terminal has shown; checked every two seconds since. */
export function unshown(seconds: number): ChargeSeen {
  return chargeSeen({
    createdAt: ago(seconds),
    status: 'created',
    lifeAt: null,
    endedAt: null,
    changedAt: ago(seconds),
    checkedAt: ago(Math.min(1, seconds)),
  })
}

export function boxSeen(over: Partial<BoxSeen> = {}): BoxSeen {
  return {
    client,
    cajaId: 'CAJA-1',
    sucursalId: 'SUC-1',
    charges: [chargeSeen()],
    undecided: null,
    refusal: null,
    terminal: null,
    ...over,
  }
}

export function connectionSeen(over: Partial<ConnectionSeen> = {}): ConnectionSeen {
  return {
    client,
    status: 'connected',
    isPinned: true,
    expiresAt: ago(-180 * 86_400),
    isRenewable: true,
    refreshedAt: ago(86_400),
    refreshStartedAt: null,
    withoutWebhook: null,
    unreadable: null,
    endpoints: null,
    ...over,
  }
}

export function observed(over: Partial<Observations> = {}): Observations {
  return { boxes: [], connections: [connectionSeen()], flows: [], ...over }
}

/** The health of one box, with everything else ok unless given. */
export function healthOfBox(
  box: Partial<BoxSeen>,
  around: Partial<Observations> = {},
  at = now,
): BoxHealth {
  const { boxes } = deriveHealth(observed({ boxes: [boxSeen(box)], ...around }), at)
  return boxes[0] as BoxHealth
}
