import type { Database, Db, Trx } from '../../db/database.ts'
import type { Reason, ReasonCode, StoredReason } from '../../domain/flow-reasons.ts'
import { sentenceOf } from '../../domain/flow-reasons.ts'
import { approve } from '../../repositories/flows/approvals.ts'
import { resetHashes } from '../../repositories/flows/flow-items.ts'
import {
  deleteLimits,
  deletePauseFor,
  deletePauses,
  type FlowActivity,
  findPauseFor,
  insertFlowActivity,
  insertPauses,
  takeOverPauses,
  upsertLimit,
} from '../../repositories/flows/flow-pauses-and-limits.ts'
import {
  askFill,
  type FlowStateChange,
  findFlowState,
  requestForgetting,
  requestFullScan,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'

/** Pauses of the service that end automatically or by an operator's answer. An operator's pause replaces them. */
const passing = ['DEFINITION_MISSING', 'DEFINITION_CHANGED', 'DESTINATION_CHANGED'] as const
/** Pauses that wait for an operator's decision. */
const questions = ['DEFINITION_CHANGED', 'DESTINATION_CHANGED'] as const

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
 * Pauses flows. Committed before it returns, so it survives a crash. It replaces a pause that would end
 * automatically. A question that it replaced is asked again after the resume.
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
    for (const flow of await takeOverPauses(trx, flows, passing, pause)) {
      const nothing = { pending_definition_hash: null, asked_identities: null }
      await updateFlowState(trx, flow, nothing)
    }
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

/**
 * Pauses a flow with changed destinations, and asks whether they get all items. If an operator has paused it, the
 * question follows after that pause.
 */
export async function askAboutDestinations(
  trx: Trx,
  flow: string,
  { at, why, identities }: { at: Date; why: Reason; identities: Readonly<Record<string, string>> },
): Promise<void> {
  await endDestinationQuestion(trx, flow, at)
  await pauseByService(trx, [flow], { at, why })
  const isAsked = (await findPauseFor(trx, flow, ['DESTINATION_CHANGED'])) !== undefined
  await updateFlowState(trx, flow, { asked_identities: isAsked ? identities : null })
}

/** Withdraws the question about changed destinations. Returns whether it had paused the flow. */
export async function endDestinationQuestion(trx: Trx, flow: string, at: Date): Promise<boolean> {
  await updateFlowState(trx, flow, { asked_identities: null })
  const over = {
    at,
    pausedFor: 'DESTINATION_CHANGED',
    why: { code: 'DESTINATION_SETTLED' },
  } as const
  return resumeByService(trx, flow, over)
}

/** The decision that a paused flow waits for; undefined for other pauses. */
export function questionOf(db: Db, flow: string): Promise<StoredReason | undefined> {
  return findPauseFor(db, flow, questions)
}

/** Resuming a flow with changed destinations approves them. */
async function approveDestinations(
  deps: SwitchDeps,
  trx: Trx,
  flow: string,
  { actor, at }: { actor: string; at: Date },
): Promise<void> {
  if ((await findPauseFor(trx, flow, ['DESTINATION_CHANGED'])) === undefined) return
  const asked = (await findFlowState(trx, flow))?.asked_identities ?? {}
  for (const [destination, identity] of Object.entries(asked)) {
    await approve(trx, {
      ...{ flow, subject: 'destination', pk: identity, read_number: 0 },
      ...{ approved_by: actor, approved_at: at },
    })
    const entry = { at, flow, action: 'destination approved', actor, detail: destination }
    await recordAction(deps, trx, entry)
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

/**
 * Pauses a flow and asks what its changed definition means. If an operator has paused it, the question would not be
 * visible, so it follows after that pause.
 */
export async function askAboutDefinition(
  trx: Trx,
  flow: string,
  { at, definitionHash }: { at: Date; definitionHash: string },
): Promise<void> {
  await pauseByService(trx, [flow], { at, why: { code: 'DEFINITION_CHANGED' } })
  const isAsked = await isAskedAbout(trx, flow)
  await updateFlowState(trx, flow, { pending_definition_hash: isAsked ? definitionHash : null })
}

/** Whether the flow waits for a decision about its changed definition. */
export async function isAskedAbout(db: Db | Trx, flow: string): Promise<boolean> {
  return (await findPauseFor(db, flow, ['DEFINITION_CHANGED'])) !== undefined
}

/** Withdraws the question: the definition was accepted, or says itself what to do. */
export async function endQuestion(trx: Trx, flow: string, at: Date): Promise<void> {
  await updateFlowState(trx, flow, { pending_definition_hash: null })
  const over = { at, pausedFor: 'DEFINITION_CHANGED', why: { code: 'DEFINITION_SETTLED' } } as const
  await resumeByService(trx, flow, over)
}

/** Removes the pause and a used-up limit, which would pause the flow again at once. */
export async function resumeFlows(
  deps: SwitchDeps,
  flows: readonly string[],
  actor: string,
): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    for (const flow of flows) await approveDestinations(deps, trx, flow, { actor, at })
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

/**
 * Makes the next poll forget all hashes first. The definition counts as `accepted`, because sending everything
 * answers the question of a changed definition. With `resumes` the flow goes on if that question paused it; otherwise
 * its pause shows what a resume does.
 */
export async function resetFlow(
  deps: SwitchDeps,
  flow: string,
  accepted: Pick<FlowStateChange, 'definition_hash' | 'destination_forms'>,
  actor: string,
  { resumes = false } = {},
): Promise<void> {
  const action = { flow, action: 'reset', actor, detail: null }
  await recorded(deps, action, async (trx, at) => {
    if (!resumes) {
      const forgotten = { at, by: 'service', why: { code: 'EVERYTHING_FORGOTTEN' } } as const
      await takeOverPauses(trx, [flow], ['DEFINITION_CHANGED'], forgotten)
    }
    await endQuestion(trx, flow, at)
    await updateFlowState(trx, flow, accepted)
    await requestForgetting(trx, flow)
  })
}

/** Makes the next poll send every item to one destination, and nothing of it to the others. */
export async function refillDestination(
  deps: SwitchDeps,
  flow: string,
  destination: string,
  actor: string,
): Promise<void> {
  const action = { flow, action: 'destination reset', actor, detail: destination }
  await recorded(deps, action, async (trx) => {
    // First, because it locks the state of the flow: a read that begins meanwhile is then the later one.
    await requestFullScan(trx, flow)
    await askFill(trx, { flow, destination })
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
