import { isInWindow } from '../../domain/time-window.ts'
import { LeaseLostError } from '../../jobs/with-lease.ts'
import { isPaused } from '../../repositories/flows/flow-pauses-and-limits.ts'
import { type FlowStateRow, findFlowState } from '../../repositories/flows/flow-state.ts'
import { controlError } from '../control-errors.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { createPoll, type FlowPollDeps } from '../poll/poll.ts'
import { createPoller, type Poller } from '../poll/poll-loop.ts'
import { FileNotReadyError } from '../types.ts'
import { type createPollSlots, plannedAfter } from './poll-schedule.ts'

type FlowPollerDeps = {
  poll: FlowPollDeps
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  /** Aborts when another definition takes over. */
  replaced: AbortSignal
  /** Polls begin after the end of the former definition. */
  formerEnd: Promise<void> | undefined
  /** Reads that began after this process have greater numbers. */
  startedRead: number
  leads: () => boolean
  takeSlot: ReturnType<typeof createPollSlots>
  /** The poller of the definition that took over. */
  next: () => Poller | undefined
}

/** Polls a flow at its times. Who requested a poll that was broken off by another definition gets a poll of that one. */
export function createFlowPoller(runtime: FlowRuntime, deps: FlowPollerDeps): Poller {
  const { flow } = runtime
  const { database, now } = deps.poll
  const poll = createPoll(deps.poll, runtime)
  let lastPollAt: Date | null = null
  const poller = createPoller({
    async poll(options) {
      await deps.formerEnd
      if (deps.replaced.aborted) throw new LeaseLostError()
      return poll(options)
    },
    leads: deps.leads,
    takeSlot: (signal) => deps.takeSlot(signal, lastPollAt),
    mayPoll: async () =>
      isInWindow(flow.window, now()) && !(await isPaused(database.db, flow.name)),
    async lastPollAt() {
      const state = await findFlowState(database.db, flow.name)
      lastPollAt = state?.last_poll_at ?? null
      return countedFrom(runtime, state, deps.startedRead)
    },
    intervalMs: () => flow.pollIntervalMs,
    plannedAfter: (last) => plannedAfter(flow, last),
    now,
    sleep: deps.sleep,
    onFailure: (error) => logFailure(deps, flow.name, error),
  })
  const request: Poller['request'] = (options) =>
    poller.request(options).catch((error: unknown) => {
      if (!deps.replaced.aborted) throw error
      const next = deps.next()
      if (!next) throw controlError('NOT_FOUND', { code: 'FLOW_UNKNOWN' })
      return next.request(options)
    })
  // A copy would lose the getters.
  return Object.create(poller, { request: { value: request } })
}

/** When the next poll is counted from. */
function countedFrom(
  { flow }: FlowRuntime,
  state: FlowStateRow | undefined,
  startedRead: number,
): Date | null {
  // A schedule decides, also after a start and before the first poll.
  if (flow.schedule) return state?.last_poll_at ?? state?.first_seen_at ?? null
  // A process polls at once after its start, unless another process has polled since.
  return (state?.read_number ?? 0) > startedRead ? (state?.last_poll_at ?? null) : null
}

function logFailure({ poll, replaced }: FlowPollerDeps, flow: string, error: unknown): void {
  if (replaced.aborted && error instanceof LeaseLostError) {
    poll.log.info({ flow }, 'poll broken off, because the definition was replaced')
  } else if (error instanceof FileNotReadyError) {
    poll.log.info({ flow, until: error.until, reason: error.message }, 'poll waits for a file')
  } else poll.log.error({ flow, err: error }, 'poll failed')
}
