import type { Database, Trx } from '../db/database.ts'
import { scrub } from '../http/logging.ts'
import { listOpenDeliveries } from '../repositories/flows/delivery-reports.ts'
import {
  addPending,
  type CountedFailure,
  countUnresolved,
  type FailureGroupKey,
  type FailureGroupRow,
  forgetPassedFailures,
  hasUnresolved,
  listUncounted,
  lockFailureGroup,
  setFiring,
  stopFiring,
  takeUncounted,
} from '../repositories/notifications/failure-queries.ts'
import { insertMessages } from '../repositories/notifications/message-queries.ts'
import type { StoredReason } from '../texts/reason.ts'
import type { FailureContent, FailureExample, FailureMessage } from './failure-message.ts'
import { messageId } from './message-parts.ts'
import {
  type FailureGrouping,
  type FlowReceiver,
  type NotifiedFlow,
  receiverKey,
} from './receivers.ts'

const rowsAtOnce = 1_000
/** Per destination in one run, so that many old failures do not delay other notifications. */
const batchesAtOnce = 20
/** Items that a message names: the first that failed. */
const examplesAtMost = 5

type Target = { flow: string; destination: string }
/** Without `receivers` the failures wait until one exists. */
type CountedTarget = Target & { receivers: readonly FlowReceiver[] }

/**
 * Adds final failures that are not counted yet to the pending notification of each receiver. Marking and adding share
 * a transaction. The row counts, not its time, because failures may commit in another order than they happened.
 */
export async function countFailures(
  database: Database,
  flows: readonly NotifiedFlow[],
): Promise<void> {
  const targets = flows.flatMap(targetsOf)
  if (targets.length === 0) return
  const uncounted = await listUncounted(
    database.db,
    targets.map(({ flow, destination }) => ({ flow, destination })),
  )
  const isUncounted = ({ flow, destination }: Target) =>
    uncounted.some((one) => one.flow === flow && one.destination === destination)
  for (const target of targets.filter(isUncounted)) {
    let counted = rowsAtOnce
    for (let batch = 0; batch < batchesAtOnce && counted === rowsAtOnce; batch += 1) {
      counted = await countBatch(database, target)
    }
  }
}

function targetsOf({ flow, receivers }: NotifiedFlow): CountedTarget[] {
  return flow.destinations.flatMap(({ name }) => {
    const concerned = receivers.filter(({ destinations }) => destinations.has(name))
    return concerned.length === 0
      ? []
      : [{ flow: flow.name, destination: name, receivers: concerned }]
  })
}

async function countBatch(database: Database, target: CountedTarget): Promise<number> {
  const { flow, destination } = target
  // In the same order everywhere, so that two processes do not deadlock.
  const channels = target.receivers.map(({ channel }) => channel.key).sort()
  return database.transaction(async (trx) => {
    const failures = await takeUncounted(trx, { flow, destination }, rowsAtOnce)
    const [first] = failures
    if (!first) return 0
    const pending = {
      count: failures.length,
      firstAt: first.at,
      examples: failures.slice(0, examplesAtMost).map(exampleOf),
      examplesAtMost,
    }
    for (const channel of channels) {
      await addPending(trx, { flow, channel, destination }, pending)
    }
    return failures.length
  })
}

/** Writes the due message about a group of failures, if any. */
export async function considerFailures(
  database: Database,
  row: FailureGroupRow,
  facts: { now: Date; isPaused: boolean; group: FailureGrouping },
): Promise<void> {
  const { db } = database
  const { flow, channel, destination } = row
  const isRecovering = row.message_id === null && row.firing && row.pending === 0
  if (isRecovering) await forgetPassedFailures(db, row, rowsAtOnce)
  const isUnresolved = isRecovering && (await hasUnresolved(db, row))
  if (planFailures(row, { ...facts, isUnresolved }, facts.group) === 'nothing') return
  await database.transaction((trx) => composeFailures(trx, { flow, channel, destination }, facts))
}

/** Decides under the lock of the row: another process may have been faster. */
async function composeFailures(
  trx: Trx,
  key: FailureGroupKey,
  { now, isPaused, group }: { now: Date; isPaused: boolean; group: FailureGrouping },
): Promise<void> {
  const row = await lockFailureGroup(trx, key)
  if (!row) return
  const { destination } = key
  const isUnresolved = await hasUnresolved(trx, key)
  const since = row.firing_since ?? row.first_pending_at ?? now
  switch (planFailures(row, { now, isPaused, isUnresolved }, group)) {
    case 'nothing':
      return
    case 'forget':
      return stopFiring(trx, key)
    case 'failed': {
      const open = await countUnresolved(trx, key)
      const content: FailureContent = {
        kind: 'deliveries_failed',
        destination,
        failed: row.pending,
        open,
        since: (row.first_pending_at ?? now).toISOString(),
        // Written by `exampleOf`.
        examples: row.examples as FailureExample[],
      }
      // If all of them arrived meanwhile, this message says so and none follows.
      return write(trx, row, now, content, open > 0 ? since : null)
    }
    case 'reminder': {
      const failures = await listOpenDeliveries(trx, key, {
        state: 'failed',
        limit: examplesAtMost,
      })
      const content: FailureContent = {
        kind: 'deliveries_still_failed',
        destination,
        open: await countUnresolved(trx, key),
        since: since.toISOString(),
        examples: failures.map(({ pk, last_error, why, attempts, finished_at }) =>
          exampleOf({ pk, error: last_error, why, attempts, at: finished_at ?? now }),
        ),
      }
      return write(trx, row, now, content, since)
    }
    case 'recovered': {
      const content: FailureContent = {
        kind: 'deliveries_recovered',
        destination,
        since: since.toISOString(),
      }
      return write(trx, row, now, content, null)
    }
  }
}

/** The texts of destinations contain no secrets; this is a last safeguard. */
function exampleOf({ pk, error, why, attempts, at }: CountedFailure): FailureExample {
  const reason = why && { why: { ...why, data: scrubbed(why.data) } }
  return { pk, error: scrub(error ?? ''), ...reason, attempts, at: at.toISOString() }
}

function scrubbed(data: StoredReason['data']): StoredReason['data'] {
  if (data === undefined) return undefined
  const texts = Object.entries(data).map(([name, value]) => [
    name,
    typeof value === 'string' ? scrub(value) : value,
  ])
  return Object.fromEntries(texts)
}

async function write(
  trx: Trx,
  { flow, channel, destination, messages }: FailureGroupRow,
  now: Date,
  content: FailureContent,
  firingSince: Date | null,
): Promise<void> {
  const at = now.toISOString()
  const message: FailureMessage = {
    ...content,
    // The time distinguishes the id from those of a deleted and recreated row.
    id: messageId(flow, channel, 'failures', destination, messages, at),
    at,
    flow,
  }
  await insertMessages(trx, [receiverKey(flow, channel)], message, now)
  await setFiring(trx, { flow, channel, destination }, { messageId: message.id, firingSince })
}

type State = Pick<
  FailureGroupRow,
  'pending' | 'first_pending_at' | 'firing' | 'last_sent_at' | 'message_id'
>

/** The next step for a row. `forget`: all deliveries arrived, and no message is wanted. */
type Step = 'nothing' | 'failed' | 'reminder' | 'recovered' | 'forget'

/**
 * The next message about failed deliveries. A failure waits `wait` for others. After any message none follows for
 * `interval`, so that an unstable receiver does not cause a stream of messages.
 */
function planFailures(
  row: State,
  facts: { now: Date; isUnresolved: boolean; isPaused: boolean },
  group: FailureGrouping,
): Step {
  // A message is being sent.
  if (row.message_id !== null) return 'nothing'
  const now = facts.now.getTime()
  const isSilent = isWithin(row.last_sent_at, group.intervalMs, now)
  if (row.pending > 0) {
    const isGrouping = isWithin(row.first_pending_at, group.waitMs, now)
    return isSilent || isGrouping ? 'nothing' : 'failed'
  }
  if (!row.firing) return 'nothing'
  if (facts.isUnresolved) {
    // The operator who paused the flow needs no reminder.
    return facts.isPaused || isWithin(row.last_sent_at, group.repeatMs, now)
      ? 'nothing'
      : 'reminder'
  }
  if (!group.resolved) return 'forget'
  return isSilent ? 'nothing' : 'recovered'
}

function isWithin(since: Date | null, ms: number, now: number): boolean {
  return since !== null && now < since.getTime() + ms
}
