import { randomUUID } from 'node:crypto'
import type { Trx } from '../db/database.ts'
import { isInWindow } from '../domain/time-window.ts'
import { causesOfOneOrder } from '../fleet/causes.ts'
import { createBackgroundJob } from '../jobs/background-job.ts'
import { withLease } from '../jobs/with-lease.ts'
import { addressPolicyOf } from '../outbound/address-class.ts'
import { createGuardedAgent } from '../outbound/guarded-agent.ts'
import {
  takeDecidedChargebacks,
  takeDueDocuments,
  takeNewChargebacks,
} from '../repositories/chargebacks/chargeback-queries.ts'
import { listPausedFlows } from '../repositories/flows/flow-pauses-and-limits.ts'
import {
  deleteOtherReceivers,
  listOpenGroups,
} from '../repositories/notifications/failure-queries.ts'
import {
  deleteMessagesBefore,
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
import type { ChannelDeps } from './channel.ts'
import { composeChargebackMessages } from './chargeback-message.ts'
import { createDatabaseWatch } from './database-watch.ts'
import { considerFailures, countFailures } from './failure-groups.ts'
import { flowTestNotification } from './failure-message.ts'
import {
  composeFleetMessages,
  type FleetMessage,
  fleetTestNotification,
  rowsFor,
} from './fleet-message.ts'
import { messageId } from './message-parts.ts'
import { causesOf, documentsWithinMs, groupWithinMs } from './notification-conditions.ts'
import { openChannel } from './open-channel.ts'
import {
  type FlowReceiver,
  type FlowToNotify,
  type NotificationSettings,
  type NotifiedFlow,
  openReceivers,
  receiversOf,
} from './receivers.ts'
import { createSender, type SenderDeps, type StoredMessage } from './sender.ts'
import { type ChannelTest, sendTimeoutMs, testChannels } from './test-channels.ts'
import { composeUnclaimedMessages, type UnclaimedMessage } from './unclaimed-message.ts'

export type Notifications = {
  /** Sends a test to every receiver of the settings; empty when there is none. */
  test(): Promise<ChannelTest[]>
  /** Sends a test to every receiver of a flow, ignoring its filter. */
  testFlow(flow: FlowToNotify): Promise<ChannelTest[]>
  /**
   * Notifies the receivers of a flow from now on, or by its new definition. Removed receivers are forgotten. Rejects
   * if the database does, but the receivers are notified anyway.
   */
  openFlow(flow: FlowToNotify): Promise<void>
  /** Pending messages stay in the database until the flow is opened again. */
  closeFlow(name: string): void
  start(): void
  /** Ends when running messages have their answers, after 10 s at most. */
  stop(): Promise<void>
  /** One complete run, with its messages sent. */
  checkOnce(): Promise<void>
}

export type NotificationDeps = SenderDeps & {
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  mail: ChannelDeps['mail']
}

const statesEveryMs = 2_000
const failuresEveryMs = 1_000
const keepMs = 30 * 24 * 3600_000
const housekeepingMs = 3600_000
const everyDay = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const
const causes = {
  never: causesOf('never'),
  intended: causesOf('intended'),
  early: causesOf('attention'),
  ofOneOrder: causesOfOneOrder,
}

/**
 * Notifies operators. Receivers of the settings get everything; those of a flow get its states and failed deliveries.
 * It reads states, payments and failures from the database, so no module reports to it. A message commits together
 * with its mark, so a crash loses none and a second process repeats none.
 */
export function createNotifications(
  deps: NotificationDeps,
  settings: NotificationSettings,
): Notifications {
  const { database, log, mail, now } = deps
  const { db } = database
  const { allowPrivateNetwork } = settings
  const agent = createGuardedAgent({ allowPrivateNetwork })
  const definitions = receiversOf(settings)
  const channelDeps = { mail, now, timeoutMs: sendTimeoutMs }
  const operator = new Map(
    definitions.map((definition) => {
      const channel = openChannel(definition, { ...channelDeps, agent })
      return [channel.key, channel]
    }),
  )
  const flows = new Map<string, NotifiedFlow>()
  const receiversOfFlows = (): FlowReceiver[] =>
    [...flows.values()].flatMap(({ receivers }) => receivers)
  const sender = createSender(
    deps,
    (key) => operator.get(key) ?? receiversOfFlows().find((one) => one.key === key)?.channel,
  )
  const databaseWatch = createDatabaseWatch(deps, [...operator.values()])
  let keptHouseAt = Number.NEGATIVE_INFINITY

  const isQuiet = () =>
    settings.quietHours !== undefined &&
    isInWindow({ days: everyDay, ...settings.quietHours }, now())

  const unclaimedMessages = async (
    trx: Trx,
    kind: UnclaimedMessage['kind'],
    rows: readonly OrphanRow[],
    at: Date,
  ) => {
    const orderIds = rows.flatMap(({ surplus_of: id }) => id ?? [])
    return composeUnclaimedMessages(kind, rows, at, await listReferences(trx, orderIds))
  }

  /** Messages only for receivers of the settings. */
  const paymentMessages = async (trx: Trx, at: Date, before: Date): Promise<StoredMessage[]> => {
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

  const writeFleetMessages = async (
    trx: Trx,
    kind: FleetMessage['kind'],
    rows: readonly TroubleRow[],
    at: Date,
  ) => {
    for (const message of composeFleetMessages(kind, rows, at)) {
      await insertMessages(trx, [...operator.keys()], message, at)
    }
    for (const receiver of receiversOfFlows()) {
      if (kind === 'recovered' && !receiver.group.resolved) continue
      for (const message of composeFleetMessages(kind, rowsFor(receiver, rows), at)) {
        await insertMessages(trx, [receiver.key], message, at)
      }
    }
  }

  const writeMessages = async () => {
    const at = now()
    const before = new Date(at.getTime() - groupWithinMs)
    const hasOperator = operator.size > 0
    const audience = { hasOperator, flows: receiversOfFlows().map(({ flow }) => flow) }
    await database.transaction(async (trx) => {
      await followStates(trx, causes, at)
      // Trouble that ends within quiet hours is never notified.
      if (isQuiet()) return
      const raised = await takeRaised(trx, audience, { now: at, before })
      await writeFleetMessages(trx, 'trouble', raised, at)
      const recovered = await takeRecovered(trx, audience, before)
      await writeFleetMessages(trx, 'recovered', recovered, at)
      if (!hasOperator) return
      for (const message of await paymentMessages(trx, at, before)) {
        await insertMessages(trx, [...operator.keys()], message, at)
      }
    })
  }

  const deleteOldData = async () => {
    const at = now().getTime()
    if (Math.abs(at - keptHouseAt) < housekeepingMs) return
    keptHouseAt = at
    await deleteMessagesBefore(db, new Date(at - keepMs))
  }

  const checkStates = async () => {
    if (operator.size > 0) {
      await databaseWatch.check()
      if (databaseWatch.isDown()) return
    } else if (receiversOfFlows().length === 0) return
    await withLease(deps, 'notifications', writeMessages)
    await sender.begin()
    await deleteOldData()
  }

  const checkFailures = async () => {
    const notified = [...flows.values()].filter(({ receivers }) => receivers.length > 0)
    if (notified.length === 0) return
    await countFailures(database, notified)
    const groups = await listOpenGroups(
      db,
      notified.map(({ flow }) => flow.name),
    )
    if (groups.length === 0) return
    const paused = new Set(await listPausedFlows(db))
    for (const row of groups) {
      const receiver = flows
        .get(row.flow)
        ?.receivers.find(
          ({ channel, destinations }) =>
            channel.key === row.channel && destinations.has(row.destination),
        )
      if (!receiver) continue
      const facts = { now: now(), isPaused: paused.has(row.flow), group: receiver.group }
      // A failure of one flow must not prevent the notification of others.
      await considerFailures(database, row, facts).catch((error: unknown) =>
        log.error({ err: error, flow: row.flow }, 'failure notifications not prepared'),
      )
    }
    await sender.begin()
  }

  const states = createBackgroundJob(deps, {
    name: 'notifications',
    intervalMs: statesEveryMs,
    run: checkStates,
  })
  const failures = createBackgroundJob(deps, {
    name: 'failure-notifications',
    intervalMs: failuresEveryMs,
    run: checkFailures,
  })

  /** Running messages keep their connections until they have their answers. */
  const closeAgent = ({ agent, flow }: NotifiedFlow) => {
    agent
      .close()
      .catch((error: unknown) =>
        log.warn({ err: error, flow: flow.name }, 'connections to receivers not closed'),
      )
  }

  const newTest = () => ({
    id: messageId('test', randomUUID()),
    at: now().toISOString(),
  })

  return {
    test: () =>
      testChannels(definitions, () => fleetTestNotification(newTest()), {
        mail,
        now,
        allowPrivateNetwork,
      }),
    testFlow: (flow) =>
      testChannels(flow.alerts.onJobFailed, () => flowTestNotification(flow.name, newTest()), {
        mail,
        now,
        ...addressPolicyOf(flow),
      }),
    async openFlow(flow) {
      const former = flows.get(flow.name)
      const opened = openReceivers(flow, channelDeps)
      flows.set(flow.name, opened)
      if (former) closeAgent(former)
      await deleteOtherReceivers(db, flow.name, {
        channels: opened.receivers.map(({ channel }) => channel.key),
        keys: opened.receivers.map(({ key }) => key),
        destinations: flow.destinations.map(({ name }) => name),
      })
    },
    closeFlow(name) {
      const former = flows.get(name)
      flows.delete(name)
      if (former) closeAgent(former)
    },
    start() {
      states.start()
      failures.start()
    },
    async stop() {
      await Promise.all([states.stop(), failures.stop()])
      await sender.stop()
      await Promise.all(
        [agent, ...[...flows.values()].map((one) => one.agent)].map((one) => one.destroy()),
      )
      flows.clear()
    },
    async checkOnce() {
      await states.once()
      await failures.once()
      await sender.settled()
    },
  }
}
