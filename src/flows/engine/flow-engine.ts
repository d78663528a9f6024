import { createHash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { isDeepStrictEqual } from 'node:util'
import type { Agent } from 'undici'
import { notify, type Trx } from '../../db/database.ts'
import { Secret } from '../../domain/flow-secret.ts'
import { isInWindow } from '../../domain/time-window.ts'
import { createKeyedQueue } from '../../jobs/keyed-queue.ts'
import type { Leader } from '../../jobs/leader.ts'
import { LeaseLostError } from '../../jobs/with-lease.ts'
import type { Notifications } from '../../notifications/notifications.ts'
import { addressPolicyOf } from '../../outbound/address-class.ts'
import { createGuardedAgent } from '../../outbound/guarded-agent.ts'
import { isPaused } from '../../repositories/flows/flow-pauses-and-limits.ts'
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
import type { FlowProblemView } from '../control/control-service-types.ts'
import { warnOfMissing, warnOfPending } from '../control/destination-reports.ts'
import {
  forgetLimits,
  pauseByService,
  recordAction,
  resumeByService,
  type SwitchDeps,
} from '../control/pauses-and-limits.ts'
import { controlError } from '../control-errors.ts'
import type { FlowContext } from '../definition/flow-context.ts'
import { identitiesOf } from '../definition/identity.ts'
import { type LoadedFlow, loadFlows } from '../definition/load-flow-files.ts'
import { openingProblem } from '../definition/problem-view.ts'
import type { Deliveries } from '../deliver/deliver.ts'
import type { PaymentsPort } from '../destinations/payments-port.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { FlowTrace } from '../flow-trace.ts'
import type { GrantKeeper } from '../oauth/refresh-token-grants.ts'
import { createPoll, type FlowPollDeps } from '../poll/poll.ts'
import { createPoller, type Poller } from '../poll/poll-loop.ts'
import { isAccepted } from '../poll/poll-plan.ts'
import { createEnqueue, type PollDeps } from '../poll/poll-writer.ts'
import type { SourceContext } from '../sources/source-context.ts'
import { FileNotReadyError } from '../types.ts'
import { openFlow } from './open-flow.ts'
import { createPollSlots, plannedAfter } from './poll-schedule.ts'
import { findRenames, moveFlow, type Rename } from './renamed-flow.ts'

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
  /** Timed polls and deliveries run in the leading process. */
  leader: Leader
  /** Notifies operators of the open flows. */
  notifications: Pick<Notifications, 'openFlow' | 'closeFlow'>
  /** The payment side as a destination, and as a source of its orders. */
  payments: PaymentsPort
  /** Keeps and renews the refresh tokens of sources and destinations. */
  grants: Pick<GrantKeeper, 'tokens'>
  feeds: SourceContext['payments']
  /** The service's own database, which no flow may use; undefined where it has no server. */
  ownDatabase?: SourceContext['ownDatabase']
  trace?: Pick<FlowTrace, 'notePoll'> | undefined
}

export type OpenFlow = {
  loaded: LoadedFlow
  runtime: FlowRuntime
  poller: Poller
  /** Breaks the running poll off. */
  replaced: AbortController
  /** Connections of its HTTP destinations. */
  agent: Agent
  /** Of the definition with its secrets. If it is equal, a reload changes nothing. */
  fingerprint: string
}

export type FlowEngine = {
  /** Flows by name, in alphabetical order. */
  flows(): ReadonlyMap<string, OpenFlow>
  problems(): FlowProblemView[]
  /** Deliveries that are being sent, over all processes; 0 without flows. */
  countActive(): Promise<number>
  /** See PollDeps. */
  isOnFile: PollDeps['isOnFile']
  /** Reads the files and opens the flows; polls begin with `start`. */
  load(): Promise<void>
  /** Throws SERVICE_UNAVAILABLE until `load` has ended, because the flows are not known before. */
  requireLoaded(): void
  /**
   * Reads the files again, in all processes on the database. An invalid file leaves its flow unchanged; a removed
   * file pauses it. It waits for no poll and no attempt: the running poll of a changed flow is broken off.
   */
  reload(actor: string): Promise<void>
  start(): void
  /**
   * Starts nothing more and waits for running polls, at most `stopWithinMs`. Then they are broken off between two
   * batches, and the next start repeats them. Deliveries get the same time.
   */
  stop(): Promise<void>
}

const stopWithinMs = 6_000
/** A reload waits this long for the former name; then it is tried again after the same time. */
const takeOverWithinMs = 1_000
/** Notifies every process on the database that one has read its files. The payload is its id. */
const filesChannel = 'flow_files'

/** The running flows: opened from files, each with a poller, changed by one reload at a time. */
export function createFlowEngine(deps: EngineDeps): FlowEngine {
  const open = new Map<string, OpenFlow>()
  let problems: FlowProblemView[] = []
  let loading: 'under way' | 'done' | 'failed' = 'under way'
  let started = false
  let stopped = false
  /** Reads that began after this process have greater numbers. */
  let startedRead = 0
  const reloads = createKeyedQueue()
  const abandon = new AbortController()
  /** By flow, the end of its replaced definitions: no poll and no attempt uses them. */
  const closing = new Map<string, Promise<void>>()
  /** Flows that wait under their former name to be taken over. */
  let waiting = new Set<string>()
  const takeSlot = createPollSlots(availableParallelism())
  const pollDeps: FlowPollDeps = {
    database: deps.database,
    now: deps.now,
    log: deps.log,
    processId: deps.processId,
    trace: deps.trace,
    abandoned: abandon.signal,
    enqueue: createEnqueue(deps),
    isOnFile: (runtime) => isOnFile(runtime),
    isDeletedBeside: (flow) => deps.deliveries.isDeletedBeside(flow),
  }

  const mayPoll = async ({ name, window }: LoadedFlow['flow']) =>
    isInWindow(window, deps.now()) && !(await isPaused(deps.database.db, name))

  /** When the next poll is counted from. */
  const countedFrom = (
    schedule: LoadedFlow['flow']['schedule'],
    state: FlowStateRow | undefined,
  ) => {
    // A schedule decides, also after a start and before the first poll.
    if (schedule) return state?.last_poll_at ?? state?.first_seen_at ?? null
    // A process polls at once after its start, unless another process has polled since.
    return (state?.read_number ?? 0) > startedRead ? (state?.last_poll_at ?? null) : null
  }

  const hasFailed = async (name: string) => {
    const { last_poll_at: last, last_success_at: success } = await requireFlowState(
      deps.database.db,
      name,
    )
    return last !== null && (success === null || success < last)
  }

  /** `replaced` aborts when another definition takes over. Polls begin after the end of the former definition. */
  const pollerOf = (loaded: LoadedFlow, runtime: FlowRuntime, replaced: AbortSignal): Poller => {
    const { flow } = loaded
    const { name } = flow
    const formerEnd = closing.get(name)
    const abandoned = AbortSignal.any([abandon.signal, replaced])
    const poll = createPoll({ ...pollDeps, abandoned }, runtime)
    let lastPollAt: Date | null = null
    const poller = createPoller({
      poll: async (options) => {
        await formerEnd
        if (replaced.aborted) throw new LeaseLostError()
        return poll(options)
      },
      leads: () => deps.leader.current() !== undefined,
      takeSlot: (signal) => takeSlot(signal, lastPollAt),
      mayPoll: () => mayPoll(flow),
      lastPollAt: async () => {
        const state = await findFlowState(deps.database.db, name)
        lastPollAt = state?.last_poll_at ?? null
        return countedFrom(flow.schedule, state)
      },
      intervalMs: () => flow.pollIntervalMs,
      plannedAfter: (last) => plannedAfter(flow, last),
      now: deps.now,
      sleep: deps.sleep,
      onFailure: (error) => {
        if (replaced.aborted && error instanceof LeaseLostError) {
          deps.log.info({ flow: name }, 'poll broken off, because the definition was replaced')
        } else if (error instanceof FileNotReadyError) {
          deps.log.info(
            { flow: name, until: error.until, reason: error.message },
            'poll waits for a file',
          )
        } else deps.log.error({ flow: name, err: error }, 'poll failed')
      },
    })
    /** Who requested a poll that was broken off gets the one of the next definition. */
    const request: Poller['request'] = (options) =>
      poller.request(options).catch((error: unknown) => {
        if (!replaced.aborted) throw error
        const next = open.get(name)
        if (!next) throw controlError('NOT_FOUND', { code: 'FLOW_UNKNOWN' })
        return next.poller.request(options)
      })
    // A copy would lose the getters.
    return Object.create(poller, { request: { value: request } })
  }

  const register = async (
    { flow, definitionHash }: LoadedFlow,
    { identities, forms }: FlowRuntime,
  ) => {
    const at = deps.now()
    await deps.database.transaction(async (trx) => {
      const isNew = await insertFlowState(trx, flow.name, definitionHash, at)
      // The first definition needs no question.
      if (isNew) await updateFlowState(trx, flow.name, { destination_forms: forms })
      await adoptIdentities(trx, flow.name, identities)
      await updateFlowState(trx, flow.name, { is_without_definition: false })
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

  /** `isTold`: another process reloads too, and reads what failed again. */
  const openOne = async (
    loaded: LoadedFlow,
    isTold: boolean,
  ): Promise<FlowProblemView | undefined> => {
    const { name } = loaded.flow
    const fingerprint = fingerprintOf(loaded)
    const running = open.get(name)
    if (running?.fingerprint === fingerprint) {
      running.loaded = { ...running.loaded, file: loaded.file }
      return undefined
    }
    const agent = createGuardedAgent(addressPolicyOf(loaded.flow))
    let runtime: FlowRuntime | undefined
    let swapped: Promise<void>
    try {
      runtime = openFlow(loaded, {
        now: deps.now,
        log: deps.log,
        payments: deps.feeds,
        grants: deps.grants,
        ownDatabase: deps.ownDatabase,
        sleep: deps.sleep,
      })
      const { payments, grants, now, ownDatabase } = deps
      const context = { agent, payments, grants, now, ownDatabase }
      const keyName = (await findFlowState(deps.database.db, name))?.key_name ?? name
      swapped = deps.deliveries.open(loaded.flow, context, keyName)
    } catch (error) {
      await runtime?.source.close()
      await agent.close()
      return openingProblem(loaded.file, error)
    }
    await register(loaded, runtime)
    beginToClose(name, running, swapped)
    const replaced = new AbortController()
    const poller = pollerOf(loaded, runtime, replaced.signal)
    open.set(name, { loaded, runtime, poller, replaced, agent, fingerprint })
    await warnOfMissing(deps, loaded.flow)
    await deps.notifications.openFlow(loaded.flow)
    if (started) poller.start()
    // The change may mend what failed. A schedule says when the source may be read.
    if (running && !isTold && !loaded.flow.schedule && (await hasFailed(name))) poller.hint()
    return undefined
  }

  /**
   * A reload does not wait for the end of a definition. Only the next poll of its flow waits, because it compares with
   * what was delivered. `sent` resolves when no attempt uses the definition.
   */
  const beginToClose = (name: string, former: OpenFlow | undefined, sent: Promise<void>) => {
    former?.replaced.abort()
    const failed = (error: unknown) =>
      deps.log.error({ flow: name, err: error }, 'replaced definition not closed')
    const ended = [closing.get(name), former?.poller.stop(), sent.catch(failed)]
    const closed = Promise.all(ended)
      .then(() => former?.runtime.source.close())
      .then(() => former?.agent.close())
      .catch(failed)
      .finally(() => {
        if (closing.get(name) === closed) closing.delete(name)
      })
    closing.set(name, closed)
  }

  const close = (name: string) => {
    const running = open.get(name)
    open.delete(name)
    beginToClose(name, running, deps.deliveries.close(name))
    deps.notifications.closeFlow(name)
  }

  /** The names without a definition among these. */
  const missingOf = (
    names: readonly string[],
    loaded: readonly LoadedFlow[],
    onlyOpen: boolean,
  ): string[] => {
    const named = new Set(loaded.map(({ flow }) => flow.name))
    const broken = new Set(problems.map(({ file }) => file))
    return names.filter((name) => {
      if (named.has(name) || (onlyOpen && !open.has(name) && !waiting.has(name))) return false
      const file = open.get(name)?.loaded.file
      // An unreadable file may contain the flow. For a running flow its file is known; for others it may be any.
      return file === undefined ? broken.size === 0 : !broken.has(file)
    })
  }

  const renamesIn = async (loaded: readonly LoadedFlow[], onlyOpen: boolean) => {
    const states = await listFlowStates(deps.database.db)
    const known = new Set(states.map(({ flow }) => flow))
    const added = loaded.filter(({ flow }) => !known.has(flow.name))
    if (added.length === 0) return []
    const missing = new Set(missingOf([...known], loaded, onlyOpen))
    const isFirstWithout = ({ flow, is_without_definition: isMissing }: FlowStateRow) =>
      !isMissing || open.has(flow)
    const gone = states.filter(({ flow }) => missing.has(flow))
    return findRenames(gone, added, isFirstWithout)
  }

  /** In the process that leads, and when nothing uses the former name any more. Returns whether it did. */
  const takeOver = async ({ from, to }: Rename, actor: string): Promise<boolean> => {
    const term = deps.leader.current()
    if (!term) return false
    if (open.has(from)) close(from)
    await Promise.race([closing.get(from), deps.sleep(takeOverWithinMs)])
    if (closing.has(from)) return false
    const inSameTransaction = (trx: Trx) => notify(trx, filesChannel, deps.processId)
    return await moveFlow(deps, { from, to }, { actor, term, inSameTransaction })
  }

  /** Returns the flows that may be opened now. */
  const takeOverRenamed = async (
    loaded: readonly LoadedFlow[],
    onlyOpen: boolean,
    actor: string,
  ): Promise<readonly LoadedFlow[]> => {
    const renames = await renamesIn(loaded, onlyOpen)
    const later: Rename[] = []
    for (const rename of renames) {
      const isDone = await takeOver(rename, actor).catch((error: unknown) => {
        deps.log.error({ ...rename, err: error }, 'renamed flow not taken over')
        return false
      })
      if (!isDone) later.push(rename)
    }
    waiting = new Set(later.map(({ from }) => from))
    if (later.length > 0) {
      deps.log.info({ renames: later }, 'renamed flows wait until their state can be taken over')
      if (deps.leader.current()) takeOverTimer = setTimeout(takeOverAgain, takeOverWithinMs).unref()
    }
    const waitsFor = new Set(later.map(({ to }) => to))
    return loaded.filter(({ flow }) => !waitsFor.has(flow.name))
  }

  const takeOverAgain = () => {
    inTurn(() => apply({ isTold: true })).catch((error: unknown) =>
      deps.log.error({ err: error }, 'renamed flows not taken over'),
    )
  }

  /**
   * A flow without its file keeps its state and shows why it is paused. `onlyOpen` skips flows that were never open
   * here: another process may have their files.
   */
  const dropMissing = async (loaded: readonly LoadedFlow[], onlyOpen: boolean) => {
    const states = await listFlowStates(deps.database.db)
    // An open flow without a state was taken over by another process.
    const names = new Set([...states.map(({ flow }) => flow), ...open.keys()])
    const gone = missingOf([...names], loaded, onlyOpen).filter((name) => !waiting.has(name))
    for (const name of gone) close(name)
    const missing = states.map(({ flow }) => flow).filter((name) => gone.includes(name))
    const at = deps.now()
    await deps.database.transaction(async (trx) => {
      await pauseByService(trx, missing, { at, why: { code: 'DEFINITION_MISSING' } })
      for (const name of missing) {
        await updateFlowState(trx, name, { is_without_definition: true })
      }
    })
    if (missing.length > 0) {
      deps.log.warn({ flows: missing }, 'flows without a definition paused; their state is kept')
      await warnOfPending(deps, missing)
    }
  }

  /** A definition that is not accepted yet is compared at once, and one that is back needs no question any more. */
  const compareChanged = async () => {
    for (const state of await listFlowStates(deps.database.db)) {
      const one = open.get(state.flow)
      if (one && (state.question || !isAccepted(one.runtime, state))) one.poller.hint()
    }
  }

  const readAgain = () => {
    inTurn(async () => {
      await apply({ isTold: true })
      deps.log.info({}, 'flow files reloaded after another process reloaded them')
    }).catch((error: unknown) => deps.log.error({ err: error }, 'flow files not reloaded'))
  }

  /** Each process reads the files after another did; otherwise it would continue with an outdated definition. */
  const followOthers = async () => {
    unlisten ??= await deps.database.listen(filesChannel, (processId) => {
      if (processId !== deps.processId) readAgain()
    })
  }

  /** A process that was suspended or disconnected from the database missed the notification of another one. */
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
  let takeOverTimer: NodeJS.Timeout | undefined
  let unfollow = () => {}
  const startDeliveries = async () => {
    if (deliveriesStarted) return
    await deps.deliveries.start()
    unfollow = deps.leader.follow(() => {
      for (const { poller } of open.values()) poller.wake()
      if (waiting.size > 0) takeOverAgain()
    })
    await deps.leader.start()
    deliveriesStarted = true
  }

  const apply = async ({ isTold = false, actor = 'service' } = {}) => {
    clearTimeout(takeOverTimer)
    const { flows, problems: found } = await loadFlows(deps.flowsDir, deps.files)
    problems = [...found]
    // A process without flows must not become the leader, because it cannot deliver those of others.
    if (flows.length > 0) await startDeliveries()
    for (const loaded of await takeOverRenamed(flows, isTold, actor)) {
      const problem = await openOne(loaded, isTold)
      if (problem) problems.push(problem)
    }
    await dropMissing(flows, isTold)
    await compareChanged()
    for (const problem of problems) {
      deps.log.error({ ...problem }, 'flow file not valid; its flow is not loaded')
    }
  }

  /** Two parallel reloads would open a flow twice. */
  const inTurn = (work: () => Promise<void>) =>
    reloads.run('', async () => {
      if (!stopped) await work()
    })

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
      throw loading === 'under way'
        ? controlError(
            'SERVICE_UNAVAILABLE',
            { code: 'FLOWS_LOADING' },
            { extra: { retryAfterSeconds: 1 } },
          )
        : controlError('SERVICE_UNAVAILABLE', {
            code: loading === 'failed' ? 'FLOWS_NOT_LOADED' : 'FLOWS_LOADING',
          })
    },
    reload: (actor) =>
      inTurn(async () => {
        await apply({ actor })
        await deps.database.transaction(async (trx) => {
          await recordAction(deps, trx, {
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
      clearTimeout(takeOverTimer)
      await unlisten?.()
      const timer = setTimeout(() => abandon.abort(), stopWithinMs)
      await reloads.idle()
      if (deliveriesStarted) await deps.deliveries.stop({ timeoutMs: stopWithinMs })
      await Promise.all([...open.values()].map(({ poller }) => poller.stop()))
      await Promise.all(closing.values())
      unfollow()
      await deps.leader.stop()
      clearTimeout(timer)
      await Promise.all(
        [...open.values()].map(async ({ runtime, agent }) => {
          await runtime.source.close()
          await agent.close()
        }),
      )
    },
  }
}

function fingerprintOf({ flow, definitionHash }: LoadedFlow): string {
  const text = JSON.stringify(flow, function revealed(this: Record<string, unknown>, key, value) {
    // toJSON has already masked `value`.
    const given = this[key]
    return given instanceof Secret ? given.reveal() : value
  })
  return createHash('sha256').update(definitionHash).update(text).digest('hex')
}
