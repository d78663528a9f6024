import type { Agent } from 'undici'
import type { Database } from '../db/database.ts'
import { withLease } from '../jobs/with-lease.ts'
import { backoffMs, type RetryPolicy } from '../outbound/backoff.ts'
import { createGuardedAgent } from '../outbound/guarded-agent.ts'
import { furthestMs, hasCome } from '../repositories/due-work.ts'
import { listPauses } from '../repositories/flows/flow-switches.ts'
import {
  type AlertKey,
  type AlertRow,
  accessSubject,
  deleteOtherAlerts,
  forgetDelivered,
  hasUnresolved,
  listDueMessages,
  listOpenAlerts,
  markSent,
  postponeChannel,
  readFlowHealth,
} from '../repositories/notifications/failure-queries.ts'
import type { Flow } from '../sync/definition/schema.ts'
import type { AlertResult } from '../sync/flow-service.ts'
import { ofSource } from '../sync/oauth/lost-grant.ts'
import type { Channel, ChannelDeps } from './channel.ts'
import {
  composeCondition,
  composeFailures,
  composeHeld,
  type HeldBack,
} from './compose-failures.ts'
import { type AlertTarget, countFailures } from './count-failures.ts'
import { type ConditionWatch, createConditionWatch } from './flow-conditions.ts'
import type { AlertMessage } from './flow-message.ts'
import { textsOf } from './flow-message-texts.ts'
import { heldAccesses } from './held-accesses.ts'
import { openChannel } from './open-channel.ts'
import { planCondition, planFailures, planHeld } from './plan-failures.ts'
import { sendTimeoutMs, testAlerts } from './test-channels.ts'

export type AlertFlow = Pick<
  Flow,
  'name' | 'alerts' | 'allowPrivateNetwork' | 'source' | 'destinations' | 'windows'
>

export type AlertDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number, signal: AbortSignal) => Promise<void>
  /** Names this process among those on the same database. */
  processId: string
  mail: ChannelDeps['mail']
  /** Whether polls may begin now, by the window of the flow. */
  isInWindow: (windows: Flow['windows'], now: Date) => boolean
  log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
}

export type Alerts = {
  /**
   * Watches a flow, or goes on with its new definition; receivers it no longer has are forgotten. Rejects when the
   * database does; the flow is watched all the same.
   */
  openFlow(flow: AlertFlow): Promise<void>
  /** What is still to be told stays in the database until the flow is opened again. */
  closeFlow(name: string): void
  test(flow: AlertFlow): Promise<AlertResult[]>
  start(): void
  /** Ends when the messages under way have their answers, 10 s at most. */
  stop(): Promise<void>
  /** One look at everything, and the messages that come of it sent; for tests and for whoever cannot wait. */
  checkOnce(): Promise<void>
}

type Receiver = { channel: Channel; destinations: ReadonlySet<string> }

type OpenFlow = {
  flow: AlertFlow
  /** By their keys. */
  receivers: Map<string, Receiver>
  agent: Agent
  watch: ConditionWatch
}

const lookMs = 1_000
const afterFailureMs = 5_000
const judgeEveryMs = 15_000
const forgottenAtOnce = 1_000
/** Without an end: somebody must learn of it one day. Nothing is left to chance, since only one process sends. */
const retries: RetryPolicy = {
  attempts: Number.POSITIVE_INFINITY,
  initialMs: 10_000,
  factor: 2,
  maxMs: 15 * 60_000,
  jitter: 0,
}

/**
 * Tells the receivers of each flow what failed for good, and when it is well again. Nobody has to report a failure: it is
 * found in the deliveries themselves, where it is committed, so none is lost by a crash; each is counted once, and a message
 * stays in the database until its receiver has it (it may arrive twice, under the same id). Processes on the same database
 * share the work.
 */
export function createAlerts(deps: AlertDeps): Alerts {
  const { database, log } = deps
  const { db } = database
  const open = new Map<string, OpenFlow>()
  const stopped = new AbortController()
  /** By flow and channel: a receiver gets one message after the other, and a slow one holds up nobody else. */
  const sending = new Map<string, Promise<void>>()
  let loop: Promise<void> | undefined
  let lastJudgedAt = Number.NEGATIVE_INFINITY

  const considerFailures = async (row: AlertRow, isPaused: boolean) => {
    const opened = open.get(row.flow)
    if (!opened?.receivers.get(row.channel)?.destinations.has(row.subject)) return
    const target = { flow: row.flow, destination: row.subject }
    const isRecovering = row.message === null && row.firing && row.pending === 0
    if (isRecovering) await forgetDelivered(db, target, forgottenAtOnce)
    const facts = { now: deps.now(), isPaused }
    const isUnresolved = isRecovering && (await hasUnresolved(db, target))
    const { group } = opened.flow.alerts
    if (planFailures(row, { ...facts, isUnresolved }, group) === 'nothing') return
    await database.transaction((trx) => composeFailures(trx, keyOf(row), facts, group))
  }

  const judge = async (opened: OpenFlow, rows: readonly AlertRow[], isPaused: boolean) => {
    const { flow, receivers, watch } = opened
    const { group, onDegraded } = flow.alerts
    if (Object.values(onDegraded).every((limit) => limit === undefined)) return
    const now = deps.now()
    const health = await readFlowHealth(db, flow.name)
    const isQuiet = isPaused || !deps.isInWindow(flow.windows, now)
    for (const { condition, limit, verdict } of watch.judge(onDegraded, health, { now, isQuiet })) {
      for (const channel of receivers.keys()) {
        const key = { flow: flow.name, channel, kind: 'degraded' as const, subject: condition }
        const row = rows.find((one) => isSame(one, key)) ?? untouched
        if (planCondition(row, { now, verdict }, group) === 'nothing') continue
        const facts = { now, limit, verdict }
        await database.transaction((trx) => composeCondition(trx, key, facts, group))
      }
    }
  }

  const considerHeld = async (
    { flow }: OpenFlow,
    rows: readonly AlertRow[],
    { subject, channels, held }: { subject: string; channels: Iterable<string>; held: HeldBack },
  ) => {
    const now = deps.now()
    const { group } = flow.alerts
    for (const channel of channels) {
      const key = { flow: flow.name, channel, kind: 'degraded' as const, subject }
      const row = rows.find((one) => isSame(one, key)) ?? untouched
      if (planHeld(row, { now, heldSince: held.since }, group) === 'nothing') continue
      await database.transaction((trx) => composeHeld(trx, key, { now, held }, group))
    }
  }

  const considerAccesses = async (opened: OpenFlow, rows: readonly AlertRow[]) => {
    for (const { destination, held } of await heldAccesses(db, opened.flow)) {
      const channels = [...opened.receivers]
        .filter(([, { destinations }]) => destination === ofSource || destinations.has(destination))
        .map(([channel]) => channel)
      const subject = accessSubject(destination)
      await considerHeld(opened, rows, { subject, channels, held })
    }
  }

  const deliver = async ({ flow, channel }: Pick<AlertKey, 'flow' | 'channel'>) => {
    await withLease(deps, `alerts:${flow}:${channel}`, async ({ signal }) => {
      for (const row of await listDueMessages(db, { flow, channel }, deps.now())) {
        const receiver = open.get(flow)?.receivers.get(channel)
        if (!receiver || stopped.signal.aborted || signal.aborted) return
        // Written by `compose`.
        const message = row.message as AlertMessage
        const result = await receiver.channel.send(textsOf(message), signal)
        const { type, target } = receiver.channel
        const context = { flow, channel: type, target, alert: message.kind, messageId: message.id }
        if (result.ok || result.partly) {
          await markSent(db, row, deps.now())
          if (result.ok) log.info(context, 'alert sent')
          else log.warn({ ...context, reason: result.error }, 'alert sent in part')
          continue
        }
        const attempts = row.attempts + 1
        const { retryAfterSeconds } = result
        const delayMs = backoffMs(retries, attempts, { random: () => 0, retryAfterSeconds })
        const until = new Date(deps.now().getTime() + delayMs)
        await postponeChannel(db, row, attempts, until)
        log.warn(
          { ...context, reason: result.error, attempts, nextAttemptAt: until },
          'alert not sent; it will be tried again',
        )
        return
      }
    })
  }

  /** What fails for one flow must not keep the others from being looked at. */
  const apart = (flow: string, work: Promise<void>) =>
    work.catch((error: unknown) =>
      log.error({ err: error, flow }, 'an alert could not be dealt with'),
    )

  const beginSending = (row: AlertRow): void => {
    const name = `${row.flow}\n${row.channel}`
    if (sending.has(name) || !open.get(row.flow)?.receivers.has(row.channel)) return
    const work = apart(row.flow, deliver(row)).finally(() => sending.delete(name))
    sending.set(name, work)
  }

  const look = async () => {
    const flows = [...open.values()].filter(({ receivers }) => receivers.size > 0)
    if (flows.length === 0) return
    const names = flows.map(({ flow }) => flow.name)
    await countFailures(database, flows.flatMap(targetsOf))
    const rows = await listOpenAlerts(db, names)
    const nowMs = deps.now().getTime()
    const isJudging = nowMs - lastJudgedAt >= judgeEveryMs
    if (isJudging) lastJudgedAt = nowMs
    if (rows.length === 0 && !isJudging) return

    const paused = new Set((await listPauses(db)).map(({ flow }) => flow))
    for (const row of rows) {
      if (row.kind !== 'failures') continue
      await apart(row.flow, considerFailures(row, paused.has(row.flow)))
    }
    for (const opened of isJudging ? flows : []) {
      const { name } = opened.flow
      await apart(name, considerAccesses(opened, rows))
      await apart(name, judge(opened, rows, paused.has(name)))
    }
    const now = deps.now()
    for (const row of await listOpenAlerts(db, names)) {
      const isDue =
        row.next_attempt_at === null || hasCome(row.next_attempt_at, now, furthestMs.alert)
      if (row.message !== null && isDue) beginSending(row)
    }
  }

  const runLoop = async () => {
    while (!stopped.signal.aborted) {
      const pauseMs = await look().then(
        () => lookMs,
        (error: unknown) => {
          log.error({ err: error }, 'alerts could not be looked at')
          return afterFailureMs
        },
      )
      await deps.sleep(pauseMs, stopped.signal).catch(() => undefined)
    }
  }

  return {
    async openFlow(flow) {
      const former = open.get(flow.name)
      const agent = createGuardedAgent({ allowPrivateNetwork: flow.allowPrivateNetwork })
      const channelDeps = { agent, mail: deps.mail, now: deps.now, timeoutMs: sendTimeoutMs }
      const opened = {
        flow,
        receivers: receiversOf(flow, channelDeps),
        agent,
        watch: former?.watch ?? createConditionWatch(deps.now()),
      }
      open.set(flow.name, opened)
      if (former) letGo(former)
      await deleteOtherAlerts(db, flow.name, {
        channels: [...opened.receivers.keys()],
        destinations: flow.destinations.map(({ name }) => name),
      })
    },
    closeFlow(name) {
      const former = open.get(name)
      open.delete(name)
      if (former) letGo(former)
    },
    test: (flow) => testAlerts(flow, { mail: deps.mail, now: deps.now }),
    start() {
      loop ??= runLoop()
    },
    async stop() {
      stopped.abort()
      await loop
      await Promise.all(sending.values())
      await Promise.all([...open.values()].map(({ agent }) => agent.destroy()))
      open.clear()
    },
    async checkOnce() {
      await look()
      await Promise.all(sending.values())
    },
  }

  /** Messages under way keep their connections until they have their answers. */
  function letGo({ agent, flow }: OpenFlow): void {
    agent
      .close()
      .catch((error: unknown) =>
        log.warn({ err: error, flow: flow.name }, 'connections of alerts were not closed'),
      )
  }
}

/** Two entries for the same receiver are one, which gets what either of them asks for. */
function receiversOf(flow: AlertFlow, deps: ChannelDeps): Map<string, Receiver> {
  const all = flow.destinations.map(({ name }) => name)
  const receivers = new Map<string, Receiver>()
  for (const definition of flow.alerts.onJobFailed) {
    const channel = openChannel(definition, deps)
    const known = receivers.get(channel.key)
    const destinations = new Set([
      ...(known?.destinations ?? []),
      ...(definition.destinations ?? all),
    ])
    receivers.set(channel.key, { channel: known?.channel ?? channel, destinations })
  }
  return receivers
}

function targetsOf({ flow, receivers }: OpenFlow): AlertTarget[] {
  return flow.destinations.map(({ name }) => ({
    flow: flow.name,
    destination: name,
    channels: [...receivers.keys()].filter((key) => receivers.get(key)?.destinations.has(name)),
  }))
}

/** What planCondition sees of a row that is not there yet. */
const untouched = {
  pending: 0,
  first_pending_at: null,
  firing: false,
  firing_since: null,
  last_sent_at: null,
  message: null,
} as const

function keyOf({ flow, channel, kind, subject }: AlertRow): AlertKey {
  return { flow, channel, kind, subject }
}

function isSame(row: AlertKey, key: AlertKey): boolean {
  return (
    row.flow === key.flow &&
    row.channel === key.channel &&
    row.kind === key.kind &&
    row.subject === key.subject
  )
}
