import type { Database, Trx } from '../../db/database.ts'
import { forgetBodies } from '../../repositories/flows/asked-deliveries.ts'
import type { DeliveryTarget } from '../../repositories/flows/delivery-target.ts'
import { resetHashes } from '../../repositories/flows/flow-items.ts'
import {
  deleteLimits,
  deletePauseFor,
  deletePauses,
  type FlowActivity,
  insertFlowActivity,
  insertPauses,
  takeOverPauses,
  upsertLimit,
} from '../../repositories/flows/flow-pauses-and-limits.ts'
import {
  forgetForm,
  requestForgetting,
  requestFullScan,
} from '../../repositories/flows/flow-state.ts'
import type { Reason, ReasonCode } from '../../texts/reason.ts'
import { sentenceOf } from '../../texts/reason.ts'

/** Pauses of the service that end automatically. An operator's pause replaces them. */
const passing = ['DEFINITION_MISSING'] as const

export type FlowAction = Omit<FlowActivity, 'id' | 'why'>

export type SwitchDeps = {
  database: Database
  now: () => Date
  /** Writes an entry of the audit log, in the transaction of the action. */
  audit: (trx: Trx, action: FlowAction) => Promise<void>
}

/** Records an action for the operators' list, which is short, and for the audit log, which is permanent. */
export async function recordAction(
  deps: Pick<SwitchDeps, 'audit'>,
  trx: Trx,
  action: FlowAction,
): Promise<void> {
  await insertFlowActivity(trx, action)
  await deps.audit(trx, action)
}

/** Runs the work of an action and records the action, in one transaction. */
export function recorded<T>(
  deps: SwitchDeps,
  action: Omit<FlowAction, 'at'>,
  work: (trx: Trx, at: Date) => Promise<T>,
): Promise<T> {
  const at = deps.now()
  return deps.database.transaction(async (trx) => {
    const done = await work(trx, at)
    await recordAction(deps, trx, { at, ...action })
    return done
  })
}

/**
 * Pauses flows. Committed before it returns, so it survives a crash. It replaces a pause that would end automatically.
 */
export async function pauseFlows(
  deps: SwitchDeps,
  flows: readonly string[],
  by: { actor: string; reason: string | null },
): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    const pause = { at, by: by.actor, reason: by.reason }
    await insertPauses(trx, flows, pause)
    await takeOverPauses(trx, flows, passing, pause)
    for (const flow of flows) {
      await recordAction(deps, trx, {
        at,
        flow,
        action: 'paused',
        actor: by.actor,
        detail: by.reason,
      })
    }
  })
}

/** Pauses flows on behalf of the service. A repeated cause is recorded once. */
export async function pauseByService(
  trx: Trx,
  flows: readonly string[],
  { at, why }: { at: Date; why: Reason },
): Promise<void> {
  const detail = sentenceOf(why, 'en')
  for (const flow of await insertPauses(trx, flows, { at, by: 'service', why })) {
    await insertFlowActivity(trx, { at, flow, action: 'paused', actor: 'service', detail, why })
  }
}

/** Ends a pause of the service when its reason is gone; an operator's pause stays. Returns whether there was one. */
export async function resumeByService(
  trx: Trx,
  flow: string,
  { at, pausedFor, why }: { at: Date; pausedFor: ReasonCode; why: Reason },
): Promise<boolean> {
  if (!(await deletePauseFor(trx, flow, pausedFor))) return false
  const detail = sentenceOf(why, 'en')
  await insertFlowActivity(trx, { at, flow, action: 'resumed', actor: 'service', detail, why })
  return true
}

/** Removes the pause and a used-up limit, which would pause the flow again at once. */
export async function resumeFlows(
  deps: SwitchDeps,
  flows: readonly string[],
  actor: string,
): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    await deletePauses(trx, flows)
    await deleteLimits(trx, flows, { areSpent: true })
    for (const flow of flows) {
      await recordAction(deps, trx, { at, flow, action: 'resumed', actor, detail: null })
    }
  })
}

export async function limitFlow(
  deps: SwitchDeps,
  flow: string,
  count: number,
  actor: string,
): Promise<void> {
  const action = { flow, action: 'limited', actor, detail: `${count} runs` }
  await recorded(deps, action, (trx, at) => upsertLimit(trx, flow, count, at))
}

export async function unlimitFlow(deps: SwitchDeps, flow: string, actor: string): Promise<void> {
  const action = { flow, action: 'limit removed', actor, detail: null }
  await recorded(deps, action, (trx) => deleteLimits(trx, [flow]))
}

/** Run limits end with a restart. A pause that one caused stays. */
export async function forgetLimits(deps: SwitchDeps): Promise<void> {
  await deps.database.transaction((trx) => deleteLimits(trx))
}

/** Makes the next poll forget all hashes first. It answers no question: what differs by the definition waits as before. */
export async function resetFlow(deps: SwitchDeps, flow: string, actor: string): Promise<void> {
  const action = { flow, action: 'reset', actor, detail: null }
  await recorded(deps, action, (trx) => requestForgetting(trx, flow))
}

const rowsAtOnce = 1_000

/** Makes the next poll send every item to one destination, and nothing of it to the others. `form`: see forgetForm. */
export async function refillDestination(
  deps: SwitchDeps,
  { flow, destination, form }: DeliveryTarget & { form: string },
  actor: string,
): Promise<void> {
  const target = { flow, destination }
  let after: string | undefined = ''
  while (after !== undefined) {
    const page: { after: string; limit: number } = { after, limit: rowsAtOnce }
    after = await deps.database.transaction((trx) => forgetBodies(trx, target, page))
  }
  const action = { flow, action: 'destination reset', actor, detail: destination }
  await recorded(deps, action, async (trx) => {
    await requestFullScan(trx, flow)
    await forgetForm(trx, target, form)
  })
}

/** Forgets one hash. Returns whether it existed. The next poll must read everything to find the item. */
export async function resetItem(
  deps: SwitchDeps,
  flow: string,
  pk: string,
  actor: string,
): Promise<boolean> {
  const action = { flow, action: 'item reset', actor, detail: pk }
  return recorded(deps, action, async (trx) => {
    const existed = (await resetHashes(trx, flow, [pk])) > 0
    await requestFullScan(trx, flow)
    return existed
  })
}
