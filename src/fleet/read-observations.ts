import type { Db } from '../db/database.ts'
import type { ClientName } from '../domain/client-name.ts'
import { doubtAfterMs } from '../domain/order-state.ts'
import type { ErrorCode } from '../errors/app-error.ts'
import { listEndpointTroubles } from '../repositories/events/event-endpoints.ts'
import {
  type BoxChargeRow,
  type BoxSightingRow,
  listBoxCharges,
  listClientConnections,
  listPaymentsWithoutWebhook,
  listSightings,
  listUndecided,
} from '../repositories/fleet/fleet-observations.ts'
import {
  countUnreadable,
  unreadableForMs,
} from '../repositories/provider-payments/provider-payments.ts'
import {
  missingWebhooks,
  undecidedWithinMs,
  webhookLagMs,
  withoutWebhookWithinMs,
} from './health-limits.ts'
import { type BoxSeen, boxKey, type FlowSeen, type Observations } from './observations.ts'

/** How many of the newest charges of a box are read: the ERP may cancel and repeat some without a sign of the terminal. */
const chargesRead = 4

/** The current observations, of one client or of all. Flows belong to no client; `flows` is undefined before they are loaded. */
export async function readObservations(
  db: Db,
  flows: (() => Promise<readonly FlowSeen[]>) | undefined,
  now: Date,
  client?: ClientName,
): Promise<Observations> {
  const sightings = await listSightings(db, client)
  const charges = Map.groupBy(await readCharges(db, now, client), boxKey)
  const since = new Date(now.getTime() - undecidedWithinMs)
  const undecided = new Map(
    (await listUndecided(db, since, client)).map((row) => [boxKey(row), row]),
  )
  const boxes = sightings.map((box) =>
    boxOf(box, charges.get(boxKey(box)) ?? [], undecided.get(boxKey(box)) ?? null),
  )
  const connections = await listClientConnections(db, client)
  const withoutWebhook = await listPaymentsWithoutWebhook(db, {
    client,
    since: new Date(now.getTime() - withoutWebhookWithinMs),
    before: new Date(now.getTime() - webhookLagMs),
    limit: missingWebhooks,
  })
  const unreadable = await countUnreadable(db, new Date(now.getTime() - unreadableForMs), client)
  const troubles = await listEndpointTroubles(db, client)
  const endpointsOf = new Map(troubles.map(({ client: of, ...trouble }) => [of, trouble]))
  const unreadableOf = new Map(unreadable.map(({ client: of, ...rows }) => [of, rows]))
  const withoutWebhookOf = new Map(withoutWebhook.map(({ client: of, ...ends }) => [of, ends]))
  return {
    boxes,
    connections: connections.map((row) => ({
      ...row,
      withoutWebhook: withoutWebhookOf.get(row.client) ?? null,
      unreadable: unreadableOf.get(row.client) ?? null,
      endpoints: endpointsOf.get(row.client) ?? null,
    })),
    flows: client === undefined ? ((await flows?.()) ?? []) : [],
  }
}

/**
 * The newest charge of every box, and some earlier ones where the terminal gave no sign of it. Charges before one that
 * ran on the terminal show nothing more.
 */
async function readCharges(
  db: Db,
  now: Date,
  client: ClientName | undefined,
): Promise<BoxChargeRow[]> {
  const doubtBefore = new Date(now.getTime() - doubtAfterMs)
  const newest = await listBoxCharges(db, { limit: 1, doubtBefore }, { client })
  const among = newest
    .filter(({ lifeAt }) => lifeAt === null)
    .map((row) => ({ client: row.client, cajaId: row.cajaId }))
  if (among.length === 0) return newest
  const more = await listBoxCharges(db, { limit: chargesRead, doubtBefore }, { client, among })
  return [...newest.filter(({ lifeAt }) => lifeAt !== null), ...more]
}

function boxOf(
  row: BoxSightingRow,
  charges: readonly BoxChargeRow[],
  undecided: BoxSeen['undecided'],
): BoxSeen {
  const { refusedCode, refusedSince, refusedAt, found, foundSince, foundAt } = row
  return {
    client: row.client,
    cajaId: row.cajaId,
    sucursalId: row.sucursalId,
    charges,
    undecided,
    refusal:
      refusedCode !== null && refusedSince !== null && refusedAt !== null
        ? {
            code: refusedCode as ErrorCode,
            since: refusedSince,
            at: refusedAt,
            count: row.refusals ?? 0,
          }
        : null,
    terminal:
      found !== null && foundSince !== null && foundAt !== null
        ? { found, terminalId: row.terminalId, since: foundSince, at: foundAt }
        : null,
  }
}
