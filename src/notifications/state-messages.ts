import type { Trx } from '../db/database.ts'
import { causesOfOneOrder } from '../fleet/causes.ts'
import {
  takeDecidedChargebacks,
  takeDueDocuments,
  takeNewChargebacks,
} from '../repositories/chargebacks/chargeback-queries.ts'
import { takeStoppedEndpoints } from '../repositories/events/event-endpoints.ts'
import {
  followStates,
  insertMessages,
  type TroubleRow,
  takeRaised,
  takeRecovered,
} from '../repositories/notifications/message-queries.ts'
import { listReferences } from '../repositories/orders/order-queries.ts'
import {
  type OrphanRow,
  takeFoundOrphans,
  takeSettledOrphans,
} from '../repositories/unclaimed-payments/unclaimed-queries.ts'
import { composeChargebackMessages } from './chargeback-message.ts'
import { composeEndpointMessages } from './endpoint-message.ts'
import { composeFleetMessages, type FleetMessage, rowsFor } from './fleet-message.ts'
import { causesOf, documentsWithinMs, groupWithinMs } from './notification-conditions.ts'
import type { FlowReceiver } from './receivers.ts'
import type { StoredMessage } from './sender.ts'
import { composeUnclaimedMessages, type UnclaimedMessage } from './unclaimed-message.ts'

const causes = {
  never: causesOf('never'),
  intended: causesOf('intended'),
  early: causesOf('attention'),
  ofOneOrder: causesOfOneOrder,
}

/** Who is notified: the keys of the receivers of the settings, and the receivers of flows. */
type Audience = { operator: readonly string[]; flows: readonly FlowReceiver[] }

/**
 * Writes the messages about states and payments that are due, with the mark that each was written. `isQuiet`: it is within quiet hours.
 * Trouble that ends within them is never notified.
 */
export async function writeStateMessages(
  trx: Trx,
  audience: Audience,
  at: Date,
  isQuiet: boolean,
): Promise<void> {
  const before = new Date(at.getTime() - groupWithinMs)
  const hasOperator = audience.operator.length > 0
  const wanted = { hasOperator, flows: audience.flows.map(({ flow }) => flow) }
  await followStates(trx, causes, at)
  if (isQuiet) return
  const raised = await takeRaised(trx, wanted, { now: at, before })
  await writeFleetMessages(trx, audience, 'trouble', raised, at)
  const recovered = await takeRecovered(trx, wanted, before)
  await writeFleetMessages(trx, audience, 'recovered', recovered, at)
  if (!hasOperator) return
  const stopped = await takeStoppedEndpoints(trx, at, before)
  const messages = [
    ...(await paymentMessages(trx, at, before)),
    ...composeEndpointMessages(stopped, at),
  ]
  for (const message of messages) await insertMessages(trx, audience.operator, message, at)
}

async function writeFleetMessages(
  trx: Trx,
  { operator, flows }: Audience,
  kind: FleetMessage['kind'],
  rows: readonly TroubleRow[],
  at: Date,
): Promise<void> {
  for (const message of composeFleetMessages(kind, rows, at)) {
    await insertMessages(trx, operator, message, at)
  }
  for (const receiver of flows) {
    if (kind === 'recovered' && !receiver.group.resolved) continue
    for (const message of composeFleetMessages(kind, rowsFor(receiver, rows), at)) {
      await insertMessages(trx, [receiver.key], message, at)
    }
  }
}

/** Messages only for receivers of the settings. */
async function paymentMessages(trx: Trx, at: Date, before: Date): Promise<StoredMessage[]> {
  const dueUntil = new Date(at.getTime() + documentsWithinMs)
  const found = await takeFoundOrphans(trx, at, before)
  const settled = await takeSettledOrphans(trx, at, before)
  const opened = await takeNewChargebacks(trx, at, { before, dueUntil })
  const due = await takeDueDocuments(trx, at, dueUntil)
  const decided = await takeDecidedChargebacks(trx, at, before)
  return [
    ...(await unclaimedMessages(trx, 'orphans', found, at)),
    ...(await unclaimedMessages(trx, 'orphans_settled', settled, at)),
    ...composeChargebackMessages('chargebacks_opened', opened, at),
    ...composeChargebackMessages('chargebacks_due', due, at),
    ...composeChargebackMessages('chargebacks_decided', decided, at),
  ]
}

async function unclaimedMessages(
  trx: Trx,
  kind: UnclaimedMessage['kind'],
  rows: readonly OrphanRow[],
  at: Date,
) {
  const orderIds = rows.flatMap(({ surplus_of: id }) => id ?? [])
  return composeUnclaimedMessages(kind, rows, at, await listReferences(trx, orderIds))
}
