import { createHash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { isDeepStrictEqual } from 'node:util'
import type { Agent } from 'undici'
import { notify, type Trx } from '../../db/database.ts'
import { Secret } from '../../domain/flow-secret.ts'
import { createKeyedQueue } from '../../jobs/keyed-queue.ts'
import type { Leader } from '../../jobs/leader.ts'
import type { Notifications } from '../../notifications/notifications.ts'
import { addressPolicyOf } from '../../outbound/address-class.ts'
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
import type { FlowProblemView } from '../api/control-types.ts'
import { controlError } from '../control-errors.ts'
import type { FlowContext } from '../definition/flow-context.ts'
import { identitiesOf } from '../definition/identity.ts'
import { openingProblem } from '../definition/problem-view.ts'
import type { Deliveries } from '../deliver/deliver.ts'
import { warnOfMissing, warnOfPending } from '../deliver/destination-reports.ts'
import type { PaymentsPort } from '../destinations/payments-port.ts'
import type { FlowTrace } from '../flow-trace.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { type LoadedFlow, loadFlows } from '../loading/load-flow-files.ts'
import type { RefreshTokens } from '../oauth/access-tokens.ts'
import { createItemMemory, type ItemMemory } from '../poll/item-memory.ts'
import {
  forgetLimits,
  pauseByService,
  recordAction,
  resumeByService,
  type SwitchDeps,
} from '../poll/pauses-and-limits.ts'
import type { PollDeps } from '../poll/poll-deps.ts'
import type { Poller } from '../poll/poll-loop.ts'
import { isAccepted } from '../poll/poll-plan.ts'
import { createEnqueue } from '../poll/poll-writer.ts'
import type { SourceContext } from '../sources/source-context.ts'
import { createFlowPoller } from './flow-poller.ts'
import { openFlow } from './open-flow.ts'
import { createPollSlots } from './poll-schedule.ts'
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
  grants: RefreshTokens
  feeds: SourceContext['payments']
  /** The service's own database, which no flow may use; undefined where it has no server. */
  ownDatabase?: SourceContext['ownDatabase']
  /** FLOW_ITEMS_IN_MEMORY. */
  itemsInMemory: number
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

const stopWithinMs = 6_000
/** A reload waits this long for the former name; then it is tried again after the same time. */
const takeOverWithinMs = 1_000
/** Notifies every process on the database that one has read its files. The payload is its id. */
const filesChannel = 'flow_files'

/** The running flows: opened from files, each with a poller, changed by one reload at a time. */
export class FlowEngine {
  readonly #deps: EngineDeps
  readonly #open = new Map<string, OpenFlow>()
  #problems: FlowProblemView[] = []
  #loading: 'under way' | 'done' | 'failed' = 'under way'
  #isStarted = false
  #isStopped = false
  /** Reads that began after this process have greater numbers. */
  #startedRead = 0
  readonly #reloads = createKeyedQueue()
  readonly #abandon = new AbortController()
  /** By flow, the end of its replaced definitions: no poll and no attempt uses them. */
  readonly #closing = new Map<string, Promise<void>>()
  /** Flows that wait under their former name to be taken over. */
  #waiting = new Set<string>()
  readonly #takeSlot = createPollSlots(availableParallelism())
  readonly #enqueue
  readonly #memory: ItemMemory
  #deliveriesStarted = false
  #takeOverTimer: NodeJS.Timeout | undefined
  #unlisten: (() => Promise<void>) | undefined
  #unfollow = () => {}

  constructor(deps: EngineDeps) {
    this.#deps = deps
    this.#enqueue = createEnqueue(deps)
    this.#memory = createItemMemory(deps.leader, { mostItems: deps.itemsInMemory })
  }

  /** Flows by name, in alphabetical order. */
  flows(): ReadonlyMap<string, OpenFlow> {
    return new Map([...this.#open].sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  problems(): FlowProblemView[] {
    return this.#problems
  }

  /** Deliveries that are being sent, over all processes; 0 without flows. */
  async countActive(): Promise<number> {
    return this.#deliveriesStarted ? this.#deps.deliveries.countActive() : 0
  }

  /** Reads the files and opens the flows; polls begin with `start`. */
  async load(): Promise<void> {
    try {
      await this.#inTurn(() => this.#loadFirst())
      this.#loading = 'done'
    } catch (error) {
      this.#loading = 'failed'
      throw error
    }
  }

  /** Throws SERVICE_UNAVAILABLE until `load` has ended, because the flows are not known before. */
  requireLoaded(): void {
    if (this.#loading === 'done') return
    if (this.#loading === 'failed') {
      throw controlError('SERVICE_UNAVAILABLE', { code: 'FLOWS_NOT_LOADED' })
    }
    const extra = { retryAfterSeconds: 1 }
    throw controlError('SERVICE_UNAVAILABLE', { code: 'FLOWS_LOADING' }, { extra })
  }

  /**
   * Reads the files again, in all processes on the database. An invalid file leaves its flow unchanged; a removed
   * file pauses it. It waits for no poll and no attempt: the running poll of a changed flow is broken off.
   */
  reload(actor: string): Promise<void> {
    const { database, processId } = this.#deps
    return this.#inTurn(async () => {
      await this.#apply({ actor })
      await database.transaction(async (trx) => {
        await recordAction(this.#deps, trx, {
          at: this.#deps.now(),
          flow: null,
          action: 'reloaded',
          actor,
          detail: `${this.#open.size} flows, ${this.#problems.length} problems`,
        })
        await notify(trx, filesChannel, processId)
      })
    })
  }

  start(): void {
    this.#isStarted = true
    for (const { poller } of this.#open.values()) poller.start()
  }

  /**
   * Starts nothing more and waits for running polls, at most `stopWithinMs`. Then they are broken off between two
   * batches, and the next start repeats them. Deliveries get the same time.
   */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#takeOverTimer)
    await this.#unlisten?.()
    const timer = setTimeout(() => this.#abandon.abort(), stopWithinMs)
    await this.#reloads.idle()
    if (this.#deliveriesStarted) await this.#deps.deliveries.stop({ timeoutMs: stopWithinMs })
    await Promise.all([...this.#open.values()].map(({ poller }) => poller.stop()))
    await Promise.all(this.#closing.values())
    this.#unfollow()
    await this.#deps.leader.stop()
    clearTimeout(timer)
    await Promise.all(
      [...this.#open.values()].map(async ({ runtime, agent }) => {
        await runtime.source.close()
        await agent.close()
      }),
    )
  }

  /** See PollDeps. A process that was suspended or disconnected missed the notification of another one. */
  async isOnFile({ flow: { name }, definitionHash, identities }: FlowRuntime): Promise<boolean> {
    const { flows } = await loadFlows(this.#deps.flowsDir, this.#deps.files)
    const isChanged = flows.some(
      (one) =>
        one.flow.name === name &&
        (one.definitionHash !== definitionHash ||
          !isDeepStrictEqual(identitiesOf(one.flow), identities)),
    )
    if (isChanged) this.#readAgain()
    return !isChanged
  }

  async #loadFirst(): Promise<void> {
    const { database, now, processId, startPaused } = this.#deps
    this.#startedRead = await nextRead(database.db)
    await this.#followOthers()
    await forgetLimits(this.#deps)
    await this.#apply()
    if (startPaused && this.#open.size > 0) {
      const why = { code: 'ALL_START_PAUSED' } as const
      await database.transaction((trx) =>
        pauseByService(trx, [...this.#open.keys()], { at: now(), why }),
      )
    }
    await database.transaction((trx) => notify(trx, filesChannel, processId))
  }

  async #hasFailed(name: string): Promise<boolean> {
    const { last_poll_at: last, last_success_at: success } = await requireFlowState(
      this.#deps.database.db,
      name,
    )
    return last !== null && (success === null || success < last)
  }

  async #register({ flow, definitionHash }: LoadedFlow, { identities, forms }: FlowRuntime) {
    const at = this.#deps.now()
    await this.#deps.database.transaction(async (trx) => {
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
  async #openOne(loaded: LoadedFlow, isTold: boolean): Promise<FlowProblemView | undefined> {
    const { name } = loaded.flow
    const fingerprint = fingerprintOf(loaded)
    const running = this.#open.get(name)
    if (running?.fingerprint === fingerprint) {
      running.loaded = { ...running.loaded, file: loaded.file }
      return undefined
    }
    const opened = await this.#openParts(loaded)
    if ('problem' in opened) return opened.problem
    const { runtime, agent, swapped } = opened
    await this.#register(loaded, runtime)
    this.#beginToClose(name, running, swapped)
    const replaced = new AbortController()
    const poller = this.#pollerOf(loaded, runtime, replaced.signal)
    this.#open.set(name, { loaded, runtime, poller, replaced, agent, fingerprint })
    await warnOfMissing(this.#deps, loaded.flow)
    await this.#deps.notifications.openFlow(loaded.flow)
    if (this.#isStarted) poller.start()
    // The change may mend what failed. A schedule says when the source may be read.
    if (running && !isTold && !loaded.flow.schedule && (await this.#hasFailed(name))) poller.hint()
    return undefined
  }

  /** Its source and its deliveries. `swapped` resolves when no attempt uses the former definition. */
  async #openParts(
    loaded: LoadedFlow,
  ): Promise<
    { runtime: FlowRuntime; agent: Agent; swapped: Promise<void> } | { problem: FlowProblemView }
  > {
    const { database, deliveries, feeds, grants, log, now, ownDatabase, payments, sleep } =
      this.#deps
    const agent = createGuardedAgent(addressPolicyOf(loaded.flow))
    let runtime: FlowRuntime | undefined
    try {
      runtime = openFlow(loaded, { now, log, payments: feeds, grants, ownDatabase, sleep })
      const { name } = loaded.flow
      const keyName = (await findFlowState(database.db, name))?.key_name ?? name
      const context = { agent, payments, grants, now, ownDatabase }
      return { runtime, agent, swapped: deliveries.open(loaded.flow, context, keyName) }
    } catch (error) {
      await runtime?.source.close()
      await agent.close()
      return { problem: openingProblem(loaded.file, error) }
    }
  }

  #pollerOf(loaded: LoadedFlow, runtime: FlowRuntime, replaced: AbortSignal): Poller {
    const { database, deliveries, leader, log, now, processId, sleep, trace } = this.#deps
    const { name } = loaded.flow
    return createFlowPoller(runtime, {
      poll: {
        ...{ database, now, log, processId, trace },
        enqueue: this.#enqueue,
        memory: this.#memory,
        isOnFile: (one) => this.isOnFile(one),
        isDeletedBeside: (flow) => deliveries.isDeletedBeside(flow),
        abandoned: AbortSignal.any([this.#abandon.signal, replaced]),
      },
      sleep,
      replaced,
      formerEnd: this.#closing.get(name),
      startedRead: this.#startedRead,
      leads: () => leader.current() !== undefined,
      takeSlot: this.#takeSlot,
      next: () => this.#open.get(name)?.poller,
    })
  }

  /**
   * A reload does not wait for the end of a definition. Only the next poll of its flow waits, because it compares with
   * what was delivered. `sent` resolves when no attempt uses the definition.
   */
  #beginToClose(name: string, former: OpenFlow | undefined, sent: Promise<void>) {
    former?.replaced.abort()
    const failed = (error: unknown) =>
      this.#deps.log.error({ flow: name, err: error }, 'replaced definition not closed')
    const ended = [this.#closing.get(name), former?.poller.stop(), sent.catch(failed)]
    const closed = Promise.all(ended)
      .then(() => former?.runtime.source.close())
      .then(() => former?.agent.close())
      .catch(failed)
      .finally(() => {
        if (this.#closing.get(name) === closed) this.#closing.delete(name)
      })
    this.#closing.set(name, closed)
  }

  #close(name: string) {
    const running = this.#open.get(name)
    this.#open.delete(name)
    this.#beginToClose(name, running, this.#deps.deliveries.close(name))
    this.#deps.notifications.closeFlow(name)
  }

  /** The names without a definition among these. */
  #missingOf(names: readonly string[], loaded: readonly LoadedFlow[], onlyOpen: boolean): string[] {
    const named = new Set(loaded.map(({ flow }) => flow.name))
    const broken = new Set(this.#problems.map(({ file }) => file))
    return names.filter((name) => {
      if (named.has(name) || (onlyOpen && !this.#open.has(name) && !this.#waiting.has(name)))
        return false
      const file = this.#open.get(name)?.loaded.file
      // An unreadable file may contain the flow. For a running flow its file is known; for others it may be any.
      return file === undefined ? broken.size === 0 : !broken.has(file)
    })
  }

  async #renamesIn(loaded: readonly LoadedFlow[], onlyOpen: boolean) {
    const states = await listFlowStates(this.#deps.database.db)
    const known = new Set(states.map(({ flow }) => flow))
    const added = loaded.filter(({ flow }) => !known.has(flow.name))
    if (added.length === 0) return []
    const missing = new Set(this.#missingOf([...known], loaded, onlyOpen))
    const isFirstWithout = ({ flow, is_without_definition: isMissing }: FlowStateRow) =>
      !isMissing || this.#open.has(flow)
    const gone = states.filter(({ flow }) => missing.has(flow))
    return findRenames(gone, added, isFirstWithout)
  }

  /** In the process that leads, and when nothing uses the former name any more. Returns whether it did. */
  async #takeOver({ from, to }: Rename, actor: string): Promise<boolean> {
    const term = this.#deps.leader.current()
    if (!term) return false
    if (this.#open.has(from)) this.#close(from)
    await Promise.race([this.#closing.get(from), this.#deps.sleep(takeOverWithinMs)])
    if (this.#closing.has(from)) return false
    const inSameTransaction = (trx: Trx) => notify(trx, filesChannel, this.#deps.processId)
    return await moveFlow(this.#deps, { from, to }, { actor, term, inSameTransaction })
  }

  /** Returns the flows that may be opened now. */
  async #takeOverRenamed(
    loaded: readonly LoadedFlow[],
    onlyOpen: boolean,
    actor: string,
  ): Promise<readonly LoadedFlow[]> {
    const renames = await this.#renamesIn(loaded, onlyOpen)
    const later: Rename[] = []
    for (const rename of renames) {
      const isDone = await this.#takeOver(rename, actor).catch((error: unknown) => {
        this.#deps.log.error({ ...rename, err: error }, 'renamed flow not taken over')
        return false
      })
      if (!isDone) later.push(rename)
    }
    this.#waiting = new Set(later.map(({ from }) => from))
    if (later.length > 0) {
      this.#deps.log.info(
        { renames: later },
        'renamed flows wait until their state can be taken over',
      )
      if (this.#deps.leader.current())
        this.#takeOverTimer = setTimeout(() => this.#takeOverAgain(), takeOverWithinMs).unref()
    }
    const waitsFor = new Set(later.map(({ to }) => to))
    return loaded.filter(({ flow }) => !waitsFor.has(flow.name))
  }

  #takeOverAgain() {
    this.#inTurn(() => this.#apply({ isTold: true })).catch((error: unknown) =>
      this.#deps.log.error({ err: error }, 'renamed flows not taken over'),
    )
  }

  /**
   * A flow without its file keeps its state and shows why it is paused. `onlyOpen` skips flows that were never open
   * here: another process may have their files.
   */
  async #dropMissing(loaded: readonly LoadedFlow[], onlyOpen: boolean) {
    const states = await listFlowStates(this.#deps.database.db)
    // An open flow without a state was taken over by another process.
    const names = new Set([...states.map(({ flow }) => flow), ...this.#open.keys()])
    const gone = this.#missingOf([...names], loaded, onlyOpen).filter(
      (name) => !this.#waiting.has(name),
    )
    for (const name of gone) this.#close(name)
    const missing = states.map(({ flow }) => flow).filter((name) => gone.includes(name))
    const at = this.#deps.now()
    await this.#deps.database.transaction(async (trx) => {
      await pauseByService(trx, missing, { at, why: { code: 'DEFINITION_MISSING' } })
      for (const name of missing) {
        await updateFlowState(trx, name, { is_without_definition: true })
      }
    })
    if (missing.length > 0) {
      this.#deps.log.warn(
        { flows: missing },
        'flows without a definition paused; their state is kept',
      )
      await warnOfPending(this.#deps, missing)
    }
  }

  /** A definition that is not accepted yet is compared at once, and one that is back needs no question any more. */
  async #compareChanged() {
    for (const state of await listFlowStates(this.#deps.database.db)) {
      const one = this.#open.get(state.flow)
      if (one && (state.question || !isAccepted(one.runtime, state))) one.poller.hint()
    }
  }

  #readAgain() {
    this.#inTurn(async () => {
      await this.#apply({ isTold: true })
      this.#deps.log.info({}, 'flow files reloaded after another process reloaded them')
    }).catch((error: unknown) => this.#deps.log.error({ err: error }, 'flow files not reloaded'))
  }

  /** Each process reads the files after another did; otherwise it would continue with an outdated definition. */
  async #followOthers() {
    this.#unlisten ??= await this.#deps.database.listen(filesChannel, (processId) => {
      if (processId !== this.#deps.processId) this.#readAgain()
    })
  }

  async #startDeliveries() {
    if (this.#deliveriesStarted) return
    await this.#deps.deliveries.start()
    this.#unfollow = this.#deps.leader.follow(() => {
      for (const { poller } of this.#open.values()) poller.wake()
      if (this.#waiting.size > 0) this.#takeOverAgain()
    })
    await this.#deps.leader.start()
    this.#deliveriesStarted = true
  }

  async #apply({ isTold = false, actor = 'service' } = {}) {
    clearTimeout(this.#takeOverTimer)
    const { flows, problems: found } = await loadFlows(this.#deps.flowsDir, this.#deps.files)
    this.#problems = [...found]
    // A process without flows must not become the leader, because it cannot deliver those of others.
    if (flows.length > 0) await this.#startDeliveries()
    for (const loaded of await this.#takeOverRenamed(flows, isTold, actor)) {
      const problem = await this.#openOne(loaded, isTold)
      if (problem) this.#problems.push(problem)
    }
    await this.#dropMissing(flows, isTold)
    await this.#compareChanged()
    for (const problem of this.#problems) {
      this.#deps.log.error({ ...problem }, 'flow file not valid; its flow is not loaded')
    }
  }

  /** Two parallel reloads would open a flow twice. */
  #inTurn(work: () => Promise<void>) {
    return this.#reloads.run('', async () => {
      if (!this.#isStopped) await work()
    })
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
