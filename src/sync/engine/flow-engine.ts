import { createHash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { isDeepStrictEqual } from 'node:util'
import type { Agent } from 'undici'
import { notify } from '../../db/database.ts'
import { Secret } from '../../domain/secret.ts'
import { createSparing } from '../../domain/sparing.ts'
import { isInWindow } from '../../domain/time-window.ts'
import { AppError } from '../../errors/app-error.ts'
import { withLease } from '../../jobs/with-lease.ts'
import type { Notifications } from '../../notifications/notifications.ts'
import { createGuardedAgent } from '../../outbound/guarded-agent.ts'
import {
  adoptIdentities,
  type FlowStateRow,
  findFlowState,
  insertFlowState,
  listFlowStates,
  nextRead,
  requireFlowState,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import { isPaused } from '../../repositories/flows/flow-switches.ts'
import { warnOfMissing, warnOfOwing } from '../control/destinations.ts'
import {
  endDestinationQuestion,
  endQuestion,
  forgetLimits,
  pauseByService,
  resumeByService,
  type SwitchDeps,
  writeDown,
} from '../control/switches.ts'
import type { FlowContext } from '../definition/context.ts'
import { identitiesOf } from '../definition/identity.ts'
import { type LoadedFlow, loadFlows } from '../definition/load.ts'
import type { Deliveries } from '../deliver/deliver.ts'
import type { PaymentsPort } from '../destinations/payments-port.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { FlowProblemView } from '../flow-service.ts'
import type { FlowTrace } from '../flow-trace.ts'
import type { GrantKeeper } from '../oauth/grant-keeper.ts'
import { otherDestinations } from '../poll/identity.ts'
import { isInQuestion, OutdatedError } from '../poll/plan.ts'
import { pollOnce } from '../poll/poll.ts'
import type { PollDeps } from '../poll/poll-lease.ts'
import { createPoller, type Poller, type PollOutcome } from '../poll/poller.ts'
import type { SourceContext } from '../sources/context.ts'
import { openFlow } from './open-flow.ts'
import { createPollTurns } from './poll-turns.ts'
import { plannedAfter } from './schedule.ts'

export type EngineDeps = SwitchDeps & {
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  /** Names this process as the owner of leases. */
  processId: string
  log: PollDeps['log']
  /** Folder of the flow files. */
  flowsDir: string
  files: FlowContext
  /** FLOWS_START_PAUSED. */
  startPaused: boolean
  deliveries: Deliveries
  /** Whoever tells people about the flows that are open. */
  notifications: Pick<Notifications, 'openFlow' | 'closeFlow'>
  /** The payment side as a destination, and what of it is a source. */
  payments: PaymentsPort
  /** Keeps and renews what destinations are given refresh tokens for. */
  grants: Pick<GrantKeeper, 'tokens'>
  feeds: SourceContext['payments']
  trace?: Pick<FlowTrace, 'notePoll'> | undefined
}

export type OpenFlow = {
  loaded: LoadedFlow
  runtime: FlowRuntime
  poller: Poller
  /** Connections of its HTTP destinations. */
  agent: Agent
  /** Of the definition with its secrets; equal means that a reload has nothing to change. */
  fingerprint: string
}

export type FlowEngine = {
  /** Flows by name, in alphabetical order. */
  flows(): ReadonlyMap<string, OpenFlow>
  problems(): FlowProblemView[]
  /** Deliveries in hand, over all processes; none while there are no flows. */
  countActive(): Promise<number>
  /** As PollDeps says. */
  isOnFile: PollDeps['isOnFile']
  /** Reads the files and opens the flows; polls begin with `start`. */
  load(): Promise<void>
  /** Throws SERVICE_UNAVAILABLE until `load` has come to its end: which flows there are is not known before. */
  requireLoaded(): void
  /**
   * Reads the files again, here and in all processes on the database. A file that is bad now leaves its flow as it is; one
   * that is gone pauses it.
   */
  reload(actor: string): Promise<void>
  start(): void
  /**
   * Waits for the polls in progress, `stopWithinMs` at most: then they are broken off between two batches, and the next
   * start begins them anew. Deliveries in hand get the same time. Nothing begins any more.
   */
  stop(): Promise<void>
}

const stopWithinMs = 6_000
/** Tells every process on the database that one of them has read its files, at its start or again; the payload is which. */
const filesChannel = 'flow_files'
/** A process that polls by another definition is let alone until it has missed a poll and this long. */
const silenceMs = 60_000

/**
 * The set of flows that run: opened from their files, each with a poller of its own, changed by reloads one at a time.
 */
export function createFlowEngine(deps: EngineDeps): FlowEngine {
  const open = new Map<string, OpenFlow>()
  let problems: FlowProblemView[] = []
  let loading: 'under way' | 'done' | 'failed' = 'under way'
  let started = false
  let stopped = false
  /** Reads that began after this process did have greater numbers. */
  let startedRead = 0
  let changing: Promise<void> = Promise.resolve()
  const letGo = new AbortController()
  const takeTurn = createPollTurns(availableParallelism())
  const pollDeps: PollDeps = {
    database: deps.database,
    now: deps.now,
    log: deps.log,
    enqueue: deps.deliveries.enqueue,
    enqueueNews: deps.deliveries.enqueueNews,
    isOnFile: (runtime) => isOnFile(runtime),
  }

  const mayPollOf = ({ flow }: LoadedFlow) => {
    // A flow that is held back asks every second, and its queue is long then.
    const waitingCount = createSparing(async () => {
      const value = await deps.deliveries.waitingCount(flow)
      return { value, rows: value }
    })
    return async () => {
      if (!isInWindow(flow.window, deps.now())) return false
      if (await isPaused(deps.database.db, flow.name)) return false
      return (await waitingCount()) < flow.queue.maxWaiting
    }
  }

  const lastPollAt = async ({ name, schedule }: LoadedFlow['flow']) => {
    const state = await findFlowState(deps.database.db, name)
    // A schedule says when, also after a start, and before the first poll of all.
    if (schedule) return state?.last_poll_at ?? state?.first_seen_at ?? null
    // The first poll of a process comes at once, unless another process has polled since.
    return (state?.read_number ?? 0) > startedRead ? (state?.last_poll_at ?? null) : null
  }

  /**
   * Whether another process goes on with another definition than this one: each would take the other's for a change and
   * send everything again, in turns. The one that began later polls.
   */
  const isOutdated = ({ flow, definitionHash }: LoadedFlow, state: FlowStateRow) => {
    if (!state.last_poll_at || state.definition_hash === definitionHash) return false
    const silentMs = deps.now().getTime() - state.last_poll_at.getTime()
    // One that lies ahead was written before the clock was set back, and says nothing.
    return silentMs > -silenceMs && silentMs < 2 * flow.pollIntervalMs + silenceMs
  }

  const traced = async (flow: string, poll: () => Promise<PollOutcome>): Promise<PollOutcome> => {
    const beganAt = performance.now()
    const note = (rowsRead: number, changes: number, failure: string | null) =>
      deps.trace?.notePoll({
        ...{ flow, rowsRead, changes, failure },
        durationMs: performance.now() - beganAt,
      })
    try {
      const outcome = await poll()
      if (outcome.skipped === undefined) note(outcome.rowsRead, outcome.changes, null)
      return outcome
    } catch (error) {
      note(0, 0, error instanceof Error ? error.constructor.name : 'unknown')
      throw error
    }
  }

  const pollerOf = (loaded: LoadedFlow, runtime: FlowRuntime) => {
    const { flow } = loaded
    const { name } = flow
    const lease = `flow:${name}`
    let hasPolled = false
    return createPoller({
      poll: async ({ force, begun }) => {
        const held = await withLease(deps, lease, async ({ token, signal }) => {
          begun()
          if (!force && (await isPaused(deps.database.db, name))) {
            return { changes: 0, rowsRead: 0, skipped: 'paused' } as const
          }
          const state = await requireFlowState(deps.database.db, name)
          if (hasPolled && isOutdated(loaded, state)) throw new OutdatedError()
          const held = { name: lease, token, signal: AbortSignal.any([signal, letGo.signal]) }
          const outcome = await traced(name, () => pollOnce(pollDeps, runtime, held, state))
          hasPolled ||= outcome.skipped !== 'paused'
          return outcome
        })
        return held?.result
      },
      takeTurn,
      mayPoll: mayPollOf(loaded),
      lastPollAt: () => lastPollAt(flow),
      intervalMs: () => flow.pollIntervalMs,
      plannedAfter: (last) => plannedAfter(flow, last),
      now: deps.now,
      sleep: deps.sleep,
      onFailure: (error) => deps.log.error({ flow: name, err: error }, 'the poll of a flow failed'),
    })
  }

  const register = async ({ flow, definitionHash }: LoadedFlow, { identities }: FlowRuntime) => {
    const at = deps.now()
    await deps.database.transaction(async (trx) => {
      const isNew = await insertFlowState(trx, flow.name, definitionHash, at)
      // One that is added before the first poll has ended is no other definition of what was there.
      const destinations = flow.destinations.map(({ name }) => name)
      if (isNew) await updateFlowState(trx, flow.name, { destinations })
      await adoptIdentities(trx, flow.name, identities)
      if (isNew && flow.startPaused) {
        await pauseByService(trx, [flow.name], { at, why: { code: 'START_PAUSED' } })
      }
      const back = {
        at,
        pausedFor: 'DEFINITION_MISSING',
        why: { code: 'DEFINITION_BACK' },
      } as const
      await resumeByService(trx, flow.name, back)
    })
  }

  const openOne = async (loaded: LoadedFlow): Promise<FlowProblemView | undefined> => {
    const { name } = loaded.flow
    const fingerprint = fingerprintOf(loaded)
    const running = open.get(name)
    if (running?.fingerprint === fingerprint) {
      running.loaded = { ...running.loaded, file: loaded.file }
      return undefined
    }
    const agent = createGuardedAgent({ allowPrivateNetwork: loaded.flow.allowPrivateNetwork })
    let runtime: FlowRuntime | undefined
    try {
      runtime = openFlow(loaded, {
        now: deps.now,
        log: deps.log,
        payments: deps.feeds,
        grants: deps.grants,
        sleep: deps.sleep,
      })
      const { payments, grants, now } = deps
      await deps.deliveries.open(loaded.flow, { agent, payments, grants, now })
    } catch (error) {
      await runtime?.source.close()
      await agent.close()
      return problemOf(loaded.file, error)
    }
    await register(loaded, runtime)
    if (running) await shut(running)
    const poller = pollerOf(loaded, runtime)
    open.set(name, { loaded, runtime, poller, agent, fingerprint })
    await warnOfMissing(deps, loaded.flow)
    await deps.notifications.openFlow(loaded.flow)
    if (started) poller.start()
    return undefined
  }

  /** Its deliveries have been closed, or taken over by the next definition. */
  const shut = async ({ poller, runtime, agent }: OpenFlow) => {
    await poller.stop()
    await runtime.source.close()
    await agent.close()
  }

  /**
   * A flow whose file is gone keeps its state, and says why it does nothing until the file is back. With `onlyOpen` flows that were never open here
   * are left alone: another process may have their files already.
   */
  const dropMissing = async (loaded: readonly LoadedFlow[], onlyOpen: boolean) => {
    const named = new Set(loaded.map(({ flow }) => flow.name))
    const broken = new Set(problems.map(({ file }) => file))
    const missing = (await listFlowStates(deps.database.db))
      .map(({ flow }) => flow)
      .filter((name) => {
        if (named.has(name) || (onlyOpen && !open.has(name))) return false
        const file = open.get(name)?.loaded.file
        // A file that cannot be read may be the one: of a running flow it is known which, of others any may be it.
        return file === undefined ? broken.size === 0 : !broken.has(file)
      })
    for (const name of missing) {
      const running = open.get(name)
      open.delete(name)
      await deps.deliveries.close(name)
      deps.notifications.closeFlow(name)
      if (running) await shut(running)
    }
    const at = deps.now()
    await deps.database.transaction((trx) =>
      pauseByService(trx, missing, { at, why: { code: 'DEFINITION_MISSING' } }),
    )
    if (missing.length > 0) {
      deps.log.warn(
        { flows: missing },
        'flows without a definition are paused; their state is kept',
      )
      await warnOfOwing(deps, missing)
    }
  }

  /** A definition that was put back, or whose file says now what a change means, asks nobody. */
  const endQuestions = async () => {
    for (const state of await listFlowStates(deps.database.db)) {
      const one = open.get(state.flow)
      if (!one) continue
      if (state.asked_identities !== null && otherDestinations(one.runtime, state).length === 0) {
        const trxAt = deps.now()
        await deps.database.transaction((trx) => endDestinationQuestion(trx, state.flow, trxAt))
        one.poller.wake()
      }
      if (state.pending_definition_hash === null || isInQuestion(one.runtime, state)) continue
      await deps.database.transaction((trx) => endQuestion(trx, state.flow, deps.now()))
      one.poller.wake()
    }
  }

  const readAgain = () => {
    inTurn(async () => {
      await apply({ isTold: true })
      deps.log.info({}, 'the flow files were read again, as another process did')
    }).catch((error: unknown) =>
      deps.log.error({ err: error }, 'the flow files could not be read again'),
    )
  }

  /** What one process has read the others read too, or they would go on by what it replaced. */
  const followOthers = async () => {
    unlisten ??= await deps.database.listen(filesChannel, (processId) => {
      if (processId !== deps.processId) readAgain()
    })
  }

  /** A process that stood still, or whose way to the database was away, has not heard of what another one has read. */
  const isOnFile = async ({ flow: { name }, definitionHash, identities }: FlowRuntime) => {
    const { flows } = await loadFlows(deps.flowsDir, deps.files)
    const isChanged = flows.some(
      (one) =>
        one.flow.name === name &&
        (one.definitionHash !== definitionHash ||
          !isDeepStrictEqual(identitiesOf(one.flow), identities)),
    )
    if (isChanged) readAgain()
    return !isChanged
  }

  let unlisten: (() => Promise<void>) | undefined
  let deliveriesStarted = false
  const startDeliveries = async () => {
    if (!deliveriesStarted) await deps.deliveries.start()
    deliveriesStarted = true
  }

  const apply = async ({ isTold = false } = {}) => {
    const { flows, problems: found } = await loadFlows(deps.flowsDir, deps.files)
    problems = [...found]
    // Without flows there is nothing to deliver, and no queue to be set up in the database.
    if (flows.length > 0) await startDeliveries()
    for (const loaded of flows) {
      const problem = await openOne(loaded)
      if (problem) problems.push(problem)
    }
    await dropMissing(flows, isTold)
    await endQuestions()
    for (const problem of problems) {
      deps.log.error({ ...problem }, 'a flow file is wrong; its flow is left out')
    }
  }

  /** Two reloads at once would open a flow twice. */
  const inTurn = (work: () => Promise<void>) => {
    const turn = changing.then(async () => {
      if (!stopped) await work()
    })
    changing = turn.catch(() => undefined)
    return turn
  }

  return {
    flows: () => new Map([...open].sort(([a], [b]) => (a < b ? -1 : 1))),
    problems: () => problems,
    isOnFile,
    countActive: async () => (deliveriesStarted ? deps.deliveries.countActive() : 0),
    async load() {
      try {
        await inTurn(async () => {
          startedRead = await nextRead(deps.database.db)
          await followOthers()
          await forgetLimits(deps)
          await apply()
          if (deps.startPaused && open.size > 0) {
            const at = deps.now()
            await deps.database.transaction((trx) =>
              pauseByService(trx, [...open.keys()], { at, why: { code: 'ALL_START_PAUSED' } }),
            )
          }
          await deps.database.transaction((trx) => notify(trx, filesChannel, deps.processId))
        })
        loading = 'done'
      } catch (error) {
        loading = 'failed'
        throw error
      }
    },
    requireLoaded() {
      if (loading === 'done') return
      throw new AppError('SERVICE_UNAVAILABLE', {
        message: loading === 'failed' ? notLoadedText : 'The flows are being loaded; try again',
        ...(loading === 'under way' && { extra: { retryAfterSeconds: 1 } }),
      })
    },
    reload: (actor) =>
      inTurn(async () => {
        await apply()
        await deps.database.transaction(async (trx) => {
          await writeDown(deps, trx, {
            at: deps.now(),
            flow: null,
            action: 'reloaded',
            actor,
            detail: `${open.size} flows, ${problems.length} problems`,
          })
          await notify(trx, filesChannel, deps.processId)
        })
      }),
    start() {
      started = true
      for (const { poller } of open.values()) poller.start()
    },
    async stop() {
      stopped = true
      await unlisten?.()
      const timer = setTimeout(() => letGo.abort(), stopWithinMs)
      const endDeliveries = async () => {
        if (deliveriesStarted) await deps.deliveries.stop({ timeoutMs: stopWithinMs })
      }
      // Before a reload under way is over: it may be waiting for slow attempts of an old definition.
      await endDeliveries()
      await changing
      await endDeliveries()
      await Promise.all([...open.values()].map(({ poller }) => poller.stop()))
      clearTimeout(timer)
      await Promise.all([...open.values()].map(shut))
    },
  }
}

const notLoadedText = 'The flows could not be loaded; the log says why'

/** What a definition cannot mean although its form is right shows only when it is opened. */
function problemOf(file: string, error: unknown): FlowProblemView {
  const message = error instanceof Error ? error.message : String(error)
  return { file, line: 1, column: 1, key: '', message, hint: null }
}

function fingerprintOf({ flow, definitionHash }: LoadedFlow): string {
  const text = JSON.stringify(flow, function revealed(this: Record<string, unknown>, key, value) {
    // toJSON has masked `value` by now.
    const given = this[key]
    return given instanceof Secret ? given.reveal() : value
  })
  return createHash('sha256').update(definitionHash).update(text).digest('hex')
}
