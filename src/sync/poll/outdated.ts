import { AppError } from '../../errors/app-error.ts'
import type { FlowStateRow } from '../../repositories/flows/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { PollDeps } from './poll-deps.ts'

/** Somebody goes on with a definition that this process does not know. */
export class OutdatedError extends AppError {
  constructor() {
    super('SERVICE_UNAVAILABLE', {
      message: 'Another process polls this flow by another definition; read the flow files again',
      extra: { retryAfterSeconds: 1 },
    })
    this.name = 'OutdatedError'
  }
}

/**
 * Rejects when another definition than this one was accepted and the flow files do not say this one any more: what changed was
 * the files, and this process has not read them since. Without that it would take the older definition for a newer change.
 */
export async function refuseOutdated(
  deps: Pick<PollDeps, 'isOnFile'>,
  runtime: FlowRuntime,
  state: Pick<FlowStateRow, 'definition_hash'>,
): Promise<void> {
  if (state.definition_hash === runtime.definitionHash) return
  if (!(await deps.isOnFile(runtime))) throw new OutdatedError()
}

/**
 * As refuseOutdated, of what is owed outside of polls: what counts there is a destination that this process does not know, since
 * it would not be owed what is found. Nothing may change the flow's state until the transaction ends.
 */
export async function refuseUnknownDestinations(
  deps: Pick<PollDeps, 'isOnFile'>,
  runtime: FlowRuntime,
  state: Pick<FlowStateRow, 'definition_hash' | 'destinations'> | undefined,
): Promise<void> {
  const known = new Set(runtime.flow.destinations.map(({ name }) => name))
  if (!state?.destinations?.some((name) => !known.has(name))) return
  await refuseOutdated(deps, runtime, state)
}
