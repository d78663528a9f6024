import type { Trx } from '../../db/database.ts'
import {
  type DeliveryTarget,
  lockDeliveries,
  markDelivered,
  markFailed,
  markOlderDelivered,
  markPostponed,
  markRetrying,
} from '../../repositories/deliveries.ts'
import { insertFlowErrors } from '../../repositories/flow-errors.ts'
import { addJobTotals } from '../../repositories/flow-totals.ts'
import { insertItemAttempts, type NewItemAttempt } from '../../repositories/item-history.ts'
import type { DeliveryQueue, WakeUp } from '../queue/queue.ts'
import type { Settled } from '../queue/settlements.ts'
import type { FinalFailure, Outcome } from './outcome.ts'

export type Settlement = { delivered: number; retried: number; finals: FinalFailure[] }

/**
 * Writes what became of the claims, in the given transaction. The rows are locked first: a change that came meanwhile is
 * either seen here, and the row is woken again, or it comes after this and finds no claim in its way. An outcome about an
 * older version settles only what was delivered. With `keepsHistory` every attempt is written down for the operator.
 * Rejects with ClaimLostError when a claim is not ours any longer.
 */
export async function settleOutcomes(
  trx: Trx,
  queue: Pick<DeliveryQueue, 'endClaims'>,
  target: DeliveryTarget & { keepsHistory: boolean },
  group: readonly Settled<Outcome>[],
  at: Date,
): Promise<Settlement> {
  const { flow, destination, keepsHistory } = target
  const pks = group.map(({ claim }) => claim.pk)
  const rows = new Map((await lockDeliveries(trx, target, pks)).map((row) => [row.pk, row]))
  const next: WakeUp[] = []
  const delivered: string[] = []
  const settlement: Settlement = { delivered: 0, retried: 0, finals: [] }

  for (const { claim, outcome } of group) {
    const { pk } = claim
    if (outcome.kind === 'delivered') settlement.delivered += 1
    const row = rows.get(pk)
    if (row?.state !== 'waiting') continue
    if (outcome.kind === 'nothing' || outcome.version !== row.version) {
      next.push({ pk, delayMs: 0 })
      if (outcome.kind === 'delivered') {
        await markOlderDelivered(trx, target, pk, { hash: outcome.hash, at })
      }
      continue
    }
    switch (outcome.kind) {
      case 'delivered':
        delivered.push(pk)
        break
      case 'retry': {
        const { reason, status, attempts } = outcome.failure
        const notBefore = new Date(at.getTime() + outcome.delayMs)
        await markRetrying(trx, target, pk, { attempts, error: reason, status, notBefore })
        next.push({ pk, delayMs: outcome.delayMs })
        settlement.retried += 1
        break
      }
      case 'postponed':
        await markPostponed(trx, target, pk, new Date(at.getTime() + outcome.delayMs))
        next.push({ pk, delayMs: outcome.delayMs })
        break
      case 'final': {
        const { reason, status, attempts } = outcome.failure
        await markFailed(trx, target, pk, { attempts, error: reason, status, at })
        settlement.finals.push({ ...outcome.failure, flow, destination, pk, at })
        break
      }
      default:
        outcome satisfies never
    }
  }

  if (delivered.length > 0) await markDelivered(trx, target, delivered, at)
  await insertFlowErrors(
    trx,
    settlement.finals.map(({ pk, reason, status, attempts }) => ({
      flow,
      adapter: destination,
      pk,
      error: reason,
      status,
      attempts,
      at,
    })),
  )
  const claims = group.map(({ claim }) => claim)
  await queue.endClaims(trx, flow, destination, claims, next)
  const failed = settlement.finals.length
  const attempts = keepsHistory ? group.flatMap(attemptOf) : []
  const history = attempts.length > 0 ? insertItemAttempts(target, attempts, at) : undefined
  if (settlement.delivered + failed > 0) {
    await addJobTotals(trx, flow, { completed: settlement.delivered, failed }, history)
  } else {
    await history?.execute(trx)
  }
  return settlement
}

/** What is written down of an outcome; nothing when no attempt was made, or one that does not count. */
function attemptOf({ claim: { pk }, outcome }: Settled<Outcome>): NewItemAttempt[] {
  switch (outcome.kind) {
    case 'delivered': {
      const { change: kind, hash, attempts: attempt, status } = outcome
      return [{ pk, kind, hash, attempt, outcome: 'delivered', status, reason: null }]
    }
    case 'retry':
    case 'final': {
      const { change: kind, hash, failure } = outcome
      const { attempts: attempt, status, reason } = failure
      const word = outcome.kind === 'retry' ? 'retry' : 'failed'
      return [{ pk, kind, hash, attempt, outcome: word, status, reason }]
    }
    default:
      return []
  }
}
