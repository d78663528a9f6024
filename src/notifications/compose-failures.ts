import type { Trx } from '../db/database.ts'
import { scrub } from '../http/scrub.ts'
import { listOpenDeliveries } from '../repositories/flows/delivery-reports.ts'
import {
  type AlertKey,
  type AlertRow,
  type CountedFailure,
  countUnresolved,
  ensureAlert,
  examplesKept,
  hasUnresolved,
  lockAlert,
  stopFiring,
  writeMessage,
} from '../repositories/notifications/failure-queries.ts'
import {
  type AlertContent,
  type AlertMessage,
  type Condition,
  type FailureExample,
  messageId,
} from './flow-message.ts'
import { type Group, planCondition, planFailures, planHeld, type Verdict } from './plan-failures.ts'

/**
 * Decides, under the lock of the row, what is to be told about the failures of a destination, and writes the message.
 * Answers whether there is one: another process may have been faster.
 */
export async function composeFailures(
  trx: Trx,
  key: AlertKey,
  facts: { now: Date; isPaused: boolean },
  group: Group,
): Promise<boolean> {
  const row = await lockAlert(trx, key)
  if (!row) return false
  const target = { flow: key.flow, destination: key.subject }
  const isUnresolved = await hasUnresolved(trx, target)
  const step = planFailures(row, { ...facts, isUnresolved }, group)
  const since = row.firing_since ?? row.first_pending_at ?? facts.now
  switch (step) {
    case 'nothing':
      return false
    case 'forget':
      await stopFiring(trx, key)
      return false
    case 'failed': {
      const open = await countUnresolved(trx, target)
      const content: AlertContent = {
        kind: 'failed',
        destination: key.subject,
        failed: row.pending,
        open,
        since: (row.first_pending_at ?? facts.now).toISOString(),
        // Written by `exampleOf` and read by nobody else.
        examples: row.examples as FailureExample[],
      }
      // When all of them arrived meanwhile, this message says so, and none has to follow.
      const firing = open > 0
      await write(trx, row, facts.now, content, { firing, firingSince: firing ? since : null })
      return true
    }
    case 'reminder': {
      const failures = await listOpenDeliveries(trx, target, {
        state: 'failed',
        limit: examplesKept,
      })
      const content: AlertContent = {
        kind: 'reminder',
        destination: key.subject,
        open: await countUnresolved(trx, target),
        since: since.toISOString(),
        examples: failures.map(({ pk, last_error, attempts, finished_at }) =>
          exampleOf({ pk, error: last_error, attempts, at: finished_at ?? facts.now }),
        ),
      }
      await write(trx, row, facts.now, content, { firing: true, firingSince: since })
      return true
    }
    case 'recovered': {
      const content: AlertContent = {
        kind: 'recovered',
        destination: key.subject,
        since: since.toISOString(),
      }
      await write(trx, row, facts.now, content, { firing: false, firingSince: null })
      return true
    }
  }
}

/** As composeFailures, about a condition of the flow. */
export async function composeCondition(
  trx: Trx,
  key: AlertKey & { subject: Condition },
  facts: { now: Date; limit: number; verdict: Verdict },
  group: Group,
): Promise<boolean> {
  await ensureAlert(trx, key)
  const row = await lockAlert(trx, key)
  if (!row) return false
  const { now, limit, verdict } = facts
  const step = planCondition(row, { now, verdict }, group)
  const since = (row.firing_since ?? now).toISOString()
  const condition = key.subject
  if (step === 'forget') await stopFiring(trx, key)
  if (step === 'degraded' && verdict.state === 'bad') {
    const content: AlertContent = {
      kind: 'degraded',
      condition,
      limit,
      value: verdict.value,
      since: now.toISOString(),
    }
    await write(trx, row, now, content, { firing: true, firingSince: now })
    return true
  }
  if (step !== 'restored') return false
  const content: AlertContent = { kind: 'restored', condition, since }
  await write(trx, row, now, content, { firing: false, firingSince: null })
  return true
}

/** Since when something is held back, and what is told of its beginning and of its end. */
export type HeldBack = {
  since: Date | null
  held: (since: string) => AlertContent
  released: (since: string) => AlertContent
}

/** As composeFailures, about a flow that is held, or a destination that is sent nothing. */
export async function composeHeld(
  trx: Trx,
  key: AlertKey,
  { now, held }: { now: Date; held: HeldBack },
  group: Group,
): Promise<boolean> {
  await ensureAlert(trx, key)
  const row = await lockAlert(trx, key)
  if (!row) return false
  const { since } = held
  const step = planHeld(row, { now, heldSince: since }, group)
  if (step === 'forget') await stopFiring(trx, key)
  if (step === 'held' && since) {
    const content = held.held(since.toISOString())
    await write(trx, row, now, content, { firing: true, firingSince: since })
    return true
  }
  if (step !== 'released') return false
  const content = held.released((row.firing_since ?? now).toISOString())
  await write(trx, row, now, content, { firing: false, firingSince: null })
  return true
}

/** The texts of destinations hold no secrets; this is the last fence. */
export function exampleOf({ pk, error, attempts, at }: CountedFailure): FailureExample {
  return { pk, error: scrub(error ?? ''), attempts, at: at.toISOString() }
}

async function write(
  trx: Trx,
  { flow, channel, kind, subject, messages }: AlertRow,
  now: Date,
  content: AlertContent,
  state: { firing: boolean; firingSince: Date | null },
): Promise<void> {
  const message: AlertMessage = {
    ...content,
    // The time keeps the id apart from those of a row that was deleted with its channel and came again.
    id: messageId(flow, channel, kind, subject, messages, now.toISOString()),
    at: now.toISOString(),
    flow,
  }
  await writeMessage(trx, { flow, channel, kind, subject }, { message, ...state })
}
