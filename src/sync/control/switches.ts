import type { Database, Trx } from '../../db/database.ts'
import { askFill } from '../../repositories/destination-fills.ts'
import { deleteHash } from '../../repositories/flow-items.ts'
import {
  requestForgetting,
  requestFullScan,
  updateFlowState,
} from '../../repositories/flow-state.ts'
import {
  deleteAllLimits,
  deleteLimits,
  deletePauseFor,
  deletePauses,
  deleteSpentLimits,
  type FlowActivity,
  insertFlowActivity,
  insertPauses,
  listLimits,
  listPauses,
  upsertLimit,
} from '../../repositories/flow-switches.ts'

export type FlowDeed = Omit<FlowActivity, 'id'>

export type SwitchDeps = {
  database: Database
  now: () => Date
  /** Writes an entry of the audit log, in the transaction of what was done. */
  audit: (trx: Trx, deed: FlowDeed) => Promise<void>
}

/** What somebody did: for the operators' list, which is short, and for the audit log, which is for good. */
export async function writeDown(
  deps: Pick<SwitchDeps, 'audit'>,
  trx: Trx,
  deed: FlowDeed,
): Promise<void> {
  await insertFlowActivity(trx, deed)
  await deps.audit(trx, deed)
}

export type SwitchState = {
  paused: boolean
  pausedAt: Date | null
  pausedBy: string | null
  reason: string | null
  runLimit: number | null
  runCount: number
}

/** Pause and limit of each of these flows. */
export async function readSwitches(
  deps: Pick<SwitchDeps, 'database'>,
  flows: readonly string[],
): Promise<Map<string, SwitchState>> {
  const { db } = deps.database
  const pauses = new Map((await listPauses(db)).map((pause) => [pause.flow, pause]))
  const limits = new Map((await listLimits(db)).map((limit) => [limit.flow, limit]))
  return new Map(
    flows.map((flow) => {
      const pause = pauses.get(flow)
      const limit = limits.get(flow)
      return [
        flow,
        {
          paused: pause !== undefined,
          pausedAt: pause?.pausedAt ?? null,
          pausedBy: pause?.pausedBy ?? null,
          reason: pause?.reason ?? null,
          runLimit: limit?.runLimit ?? null,
          runCount: limit?.runCount ?? 0,
        },
      ]
    }),
  )
}

/** Committed before it is answered, so that a pause outlives any crash after its answer. */
export async function pauseFlows(
  deps: SwitchDeps,
  flows: readonly string[],
  by: { actor: string; reason: string | null },
): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    await insertPauses(trx, flows, { at, by: by.actor, reason: by.reason })
    for (const flow of flows) {
      await writeDown(deps, trx, {
        at,
        flow,
        action: 'paused',
        actor: by.actor,
        detail: by.reason,
      })
    }
  })
}

/** Pauses flows without being asked by anybody; told once, however often the cause is met. */
export async function pauseByService(
  trx: Trx,
  flows: readonly string[],
  { at, reason }: { at: Date; reason: string },
): Promise<void> {
  for (const flow of await insertPauses(trx, flows, { at, by: 'service', reason })) {
    const entry = { at, flow, action: 'paused', actor: 'service', detail: reason }
    await insertFlowActivity(trx, entry)
  }
}

/** Ends a pause of the service's own whose reason is over; one that somebody else set stays. */
export async function resumeByService(
  trx: Trx,
  flow: string,
  { at, reason, detail }: { at: Date; reason: string; detail: string },
): Promise<void> {
  if (!(await deletePauseFor(trx, flow, { by: 'service', reason }))) return
  await insertFlowActivity(trx, { at, flow, action: 'resumed', actor: 'service', detail })
}

/** Takes the pause away, and a limit that is used up: it would pause the flow again at once. */
export async function resumeFlows(
  deps: SwitchDeps,
  flows: readonly string[],
  actor: string,
): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    await deletePauses(trx, flows)
    await deleteSpentLimits(trx, flows)
    for (const flow of flows) {
      await writeDown(deps, trx, { at, flow, action: 'resumed', actor, detail: null })
    }
  })
}

export async function limitFlow(
  deps: SwitchDeps,
  flow: string,
  count: number,
  actor: string,
): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    await upsertLimit(trx, flow, count, at)
    await writeDown(deps, trx, {
      at,
      flow,
      action: 'limited',
      actor,
      detail: `${count} runs`,
    })
  })
}

export async function unlimitFlow(deps: SwitchDeps, flow: string, actor: string): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    await deleteLimits(trx, [flow])
    await writeDown(deps, trx, { at, flow, action: 'limit removed', actor, detail: null })
  })
}

/** Run limits end with a restart; a pause that one of them caused stays. */
export async function forgetLimits(deps: SwitchDeps): Promise<void> {
  await deps.database.transaction((trx) => deleteAllLimits(trx))
}

/**
 * Has all hashes forgotten before the next poll reads. `definitionHash` is taken as accepted: whoever sends everything
 * again has answered the question that a changed definition asks.
 */
export async function resetFlow(
  deps: SwitchDeps,
  flow: string,
  definitionHash: string,
  actor: string,
): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    await updateFlowState(trx, flow, {
      definition_hash: definitionHash,
      pending_definition_hash: null,
    })
    await requestForgetting(trx, flow)
    await writeDown(deps, trx, { at, flow, action: 'reset', actor, detail: null })
  })
}

/** Has one destination sent every item by the next poll, and the others nothing of it. */
export async function refillDestination(
  deps: SwitchDeps,
  flow: string,
  destination: string,
  actor: string,
): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    await askFill(trx, { flow, destination })
    await requestFullScan(trx, flow)
    await writeDown(deps, trx, {
      at,
      flow,
      action: 'destination reset',
      actor,
      detail: destination,
    })
  })
}

/** Forgets one hash. Answers whether there was one. The next poll must look at everything to find the item again. */
export async function resetItem(
  deps: SwitchDeps,
  flow: string,
  pk: string,
  actor: string,
): Promise<boolean> {
  const at = deps.now()
  return deps.database.transaction(async (trx) => {
    const existed = await deleteHash(trx, flow, pk)
    await requestFullScan(trx, flow)
    await writeDown(deps, trx, { at, flow, action: 'item reset', actor, detail: pk })
    return existed
  })
}
