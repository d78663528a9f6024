import { randomUUID } from 'node:crypto'
import { isInWindow } from '../domain/time-window.ts'
import { type BackgroundJob, createBackgroundJob } from '../jobs/background-job.ts'
import { withLease } from '../jobs/with-lease.ts'
import { addressPolicyOf } from '../outbound/address-class.ts'
import { createGuardedAgent } from '../outbound/guarded-agent.ts'
import { listPausedFlows } from '../repositories/flows/flow-pauses-and-limits.ts'
import {
  deleteOtherReceivers,
  listOpenGroups,
} from '../repositories/notifications/failure-queries.ts'
import { deleteMessagesBefore } from '../repositories/notifications/message-queries.ts'
import type { Channel, ChannelDeps } from './channel.ts'
import { createDatabaseWatch } from './database-watch.ts'
import { considerFailures, countFailures } from './failure-groups.ts'
import { flowTestNotification } from './failure-message.ts'
import { fleetTestNotification } from './fleet-message.ts'
import { messageId } from './message-parts.ts'
import { type ChannelTest, openChannel, sendTimeoutMs, testChannels } from './open-channel.ts'
import {
  type FlowReceiver,
  type FlowToNotify,
  type NotificationSettings,
  type NotifiedFlow,
  openReceivers,
  receiversOf,
} from './receivers.ts'
import { createSender, type SenderDeps } from './sender.ts'
import { writeStateMessages } from './state-messages.ts'

export type NotificationDeps = SenderDeps & {
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  mail: ChannelDeps['mail']
}

const statesEveryMs = 2_000
const failuresEveryMs = 1_000
const keepMs = 30 * 24 * 3600_000
const housekeepingMs = 3600_000
const everyDay = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const

/**
 * Notifies operators. Receivers of the settings get everything; those of a flow get its states and failed deliveries.
 * It reads states, payments and failures from the database, so no module reports to it. A message commits together
 * with its mark, so a crash loses none and a second process repeats none.
 */
export class Notifications {
  readonly #deps: NotificationDeps
  readonly #settings: NotificationSettings
  readonly #agent
  /** The channels of the settings, by their keys. */
  readonly #operator: ReadonlyMap<string, Channel>
  readonly #flows = new Map<string, NotifiedFlow>()
  readonly #sender
  readonly #databaseWatch
  readonly #states: BackgroundJob<void>
  readonly #failures: BackgroundJob<void>
  #keptHouseAt = Number.NEGATIVE_INFINITY

  constructor(deps: NotificationDeps, settings: NotificationSettings) {
    this.#deps = deps
    this.#settings = settings
    const { allowPrivateNetwork } = settings
    const agent = createGuardedAgent({ allowPrivateNetwork })
    this.#agent = agent
    const channels = receiversOf(settings).map((definition) =>
      openChannel(definition, { ...this.#channelDeps(), agent }),
    )
    this.#operator = new Map(channels.map((channel) => [channel.key, channel]))
    this.#sender = createSender(
      deps,
      (key) =>
        this.#operator.get(key) ?? this.#flowReceivers().find((one) => one.key === key)?.channel,
    )
    this.#databaseWatch = createDatabaseWatch(deps, channels)
    this.#states = createBackgroundJob(deps, {
      name: 'notifications',
      intervalMs: statesEveryMs,
      run: () => this.#checkStates(),
    })
    this.#failures = createBackgroundJob(deps, {
      name: 'failure-notifications',
      intervalMs: failuresEveryMs,
      run: () => this.#checkFailures(),
    })
  }

  start(): void {
    this.#states.start()
    this.#failures.start()
  }

  /** Ends when running messages have their answers, after 10 s at most. */
  async stop(): Promise<void> {
    await Promise.all([this.#states.stop(), this.#failures.stop()])
    await this.#sender.stop()
    const agents = [this.#agent, ...[...this.#flows.values()].map(({ agent }) => agent)]
    await Promise.all(agents.map((agent) => agent.destroy()))
    this.#flows.clear()
  }

  /** Sends a test to every receiver of the settings; empty when there is none. */
  test(): Promise<ChannelTest[]> {
    const { allowPrivateNetwork } = this.#settings
    const { mail, now } = this.#deps
    const options = { mail, now, allowPrivateNetwork }
    const message = () => fleetTestNotification(this.#newTest())
    return testChannels(receiversOf(this.#settings), message, options)
  }

  /** Sends a test to every receiver of a flow, ignoring its filter. */
  testFlow(flow: FlowToNotify): Promise<ChannelTest[]> {
    const { mail, now } = this.#deps
    const options = { mail, now, ...addressPolicyOf(flow) }
    const message = () => flowTestNotification(flow.name, this.#newTest())
    return testChannels(flow.alerts.onJobFailed, message, options)
  }

  /**
   * Notifies the receivers of a flow from now on, or by its new definition. Removed receivers are forgotten. Rejects
   * if the database does, but the receivers are notified anyway.
   */
  async openFlow(flow: FlowToNotify): Promise<void> {
    const former = this.#flows.get(flow.name)
    const opened = openReceivers(flow, this.#channelDeps())
    this.#flows.set(flow.name, opened)
    if (former) this.#closeAgent(former)
    await deleteOtherReceivers(this.#deps.database.db, flow.name, {
      channels: opened.receivers.map(({ channel }) => channel.key),
      keys: opened.receivers.map(({ key }) => key),
      destinations: flow.destinations.map(({ name }) => name),
    })
  }

  /** Pending messages stay in the database until the flow is opened again. */
  closeFlow(name: string): void {
    const former = this.#flows.get(name)
    this.#flows.delete(name)
    if (former) this.#closeAgent(former)
  }

  /** One complete run, with its messages sent. */
  async checkOnce(): Promise<void> {
    await this.#states.once()
    await this.#failures.once()
    await this.#sender.settled()
  }

  #channelDeps() {
    const { mail, now } = this.#deps
    return { mail, now, timeoutMs: sendTimeoutMs }
  }

  #flowReceivers(): FlowReceiver[] {
    return [...this.#flows.values()].flatMap(({ receivers }) => receivers)
  }

  async #checkStates(): Promise<void> {
    if (this.#operator.size > 0) {
      await this.#databaseWatch.check()
      if (this.#databaseWatch.isDown()) return
    } else if (this.#flowReceivers().length === 0) return
    await withLease(this.#deps, 'notifications', () => this.#writeStateMessages())
    await this.#sender.begin()
    await this.#deleteOldData()
  }

  async #writeStateMessages(): Promise<void> {
    const at = this.#deps.now()
    const { quietHours } = this.#settings
    const isQuiet = quietHours !== undefined && isInWindow({ days: everyDay, ...quietHours }, at)
    const audience = { operator: [...this.#operator.keys()], flows: this.#flowReceivers() }
    await this.#deps.database.transaction((trx) => writeStateMessages(trx, audience, at, isQuiet))
  }

  async #deleteOldData(): Promise<void> {
    const at = this.#deps.now().getTime()
    if (Math.abs(at - this.#keptHouseAt) < housekeepingMs) return
    this.#keptHouseAt = at
    await deleteMessagesBefore(this.#deps.database.db, new Date(at - keepMs))
  }

  async #checkFailures(): Promise<void> {
    const { database, log, now } = this.#deps
    const notified = [...this.#flows.values()].filter(({ receivers }) => receivers.length > 0)
    if (notified.length === 0) return
    await countFailures(database, notified)
    const names = notified.map(({ flow }) => flow.name)
    const groups = await listOpenGroups(database.db, names)
    if (groups.length === 0) return
    const paused = new Set(await listPausedFlows(database.db))
    for (const row of groups) {
      const receiver = this.#flows
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
    await this.#sender.begin()
  }

  /** Running messages keep their connections until they have their answers. */
  #closeAgent({ agent, flow }: NotifiedFlow): void {
    agent
      .close()
      .catch((error: unknown) =>
        this.#deps.log.warn({ err: error, flow: flow.name }, 'connections to receivers not closed'),
      )
  }

  #newTest() {
    return { id: messageId('test', randomUUID()), at: this.#deps.now().toISOString() }
  }
}
