import { AppError } from '../../errors/app-error.ts'
import { createKeyedQueue } from '../../jobs/keyed-queue.ts'
import { type LeaseDeps, withLease } from '../../jobs/with-lease.ts'
import { isPaused } from '../../repositories/flows/flow-pauses-and-limits.ts'
import { findFlowState, listFlowStates } from '../../repositories/flows/flow-state.ts'
import { type Reason, sentenceOf } from '../../texts/reason.ts'
import type { Model } from '../api/api-model.ts'
import type { FlowProblemView } from '../api/control-types.ts'
import { controlError, controlErrorWithReason } from '../control-errors.ts'
import { browserFindings } from '../definition/browser-edits.ts'
import { firstFindings } from '../definition/findings.ts'
import type { FlowContext } from '../definition/flow-context.ts'
import {
  flowFromTemplate,
  type TemplateName,
  type TemplateSource,
} from '../definition/flow-template.ts'
import { type Connection, loadConnections } from '../definition/named-connections.ts'
import { openingProblem, problemOf } from '../definition/problem-view.ts'
import type { Flow } from '../definition/schema.ts'
import { parseYamlFile, placeFinding } from '../definition/yaml-file.ts'
import type { FlowEngine } from '../engine/flow-engine.ts'
import { openFlow } from '../engine/open-flow.ts'
import { loadFlows } from '../loading/load-flow-files.ts'
import { createFlowReader, type LoadedFlow } from '../loading/read-flow.ts'
import { recordAction, type SwitchDeps } from '../poll/pauses-and-limits.ts'
import { sourceUnreadable } from '../sources/source-failures.ts'
import { SourceError } from '../types.ts'
import { type ConnectionTest, testConnection } from './connection-tests.ts'
import { type DryRun, type DryRunDeps, dryRun } from './dry-run.ts'
import { openDryRunDeliveries } from './dry-run-deliveries.ts'
import { createFlowFiles, type FlowFile, type FlowFiles } from './flow-files.ts'
import { itemRequests } from './item-requests.ts'
import type { CheckedResponse, FlowFilesResponse, SavedResponse } from './workbench-schemas.ts'

type WorkbenchDeps = SwitchDeps &
  LeaseDeps &
  DryRunDeps & {
    /** Folder of the flow files. */
    flowsDir: string
    files: FlowContext
    /**
     * FLOWS_WORKBENCH: who may change a file or read a source. `false`: no caller. `true`: also callers without a
     * session or token.
     */
    setting: boolean | undefined
    /** SYNC_AUTH is `none`: any caller may be anonymous, despite the setting. */
    isOpenToAll: boolean
    engine: Pick<FlowEngine, 'flows' | 'problems' | 'requireLoaded' | 'reload'>
    /** Sends a test message to the receivers of a flow. */
    testAlerts(flow: Flow): Promise<readonly { ok: boolean; why?: Reason }[]>
  }

type CheckedModel = Model<typeof CheckedResponse>
export type Checked = Omit<CheckedModel, 'problems' | 'sendsAtOnce'> & {
  problems: FlowProblemView[]
}

/**
 * The caller. A definition can read files and send their content anywhere, so trying and saving one is restricted.
 */
export type Caller = {
  /** For the logs. */
  actor: string
  /** The caller showed neither a session nor a token. */
  isAnonymous: boolean
}

/** `asking`: flows that wait for an answer, because the connection leads their destinations to another place. */
type ConnectionView = Pick<Connection, 'name' | 'type' | 'place'> & { asking: string[] }

type FolderModel = Model<typeof FlowFilesResponse>

/** Why nothing can be saved. `message` is for operators. */
export type WhyReadOnly = { code: NonNullable<FolderModel['readOnlyCode']>; message: string }

/** `readOnly`: null if definitions can be saved. */
type FlowFolder = Pick<FolderModel, 'folder' | 'files'> & { readOnly: WhyReadOnly | null }

type Saved = Omit<Model<typeof SavedResponse>, 'problems'> & { problems: FlowProblemView[] }

type Read = { loaded: LoadedFlow } | { problems: FlowProblemView[] }

/** Lets operators read, try and change flow files. */
export class Workbench {
  readonly #deps: WorkbenchDeps
  readonly #files: FlowFiles
  readonly #saves = createKeyedQueue()
  #isRunning = false

  constructor(deps: WorkbenchDeps) {
    this.#deps = deps
    this.#files = createFlowFiles(deps.flowsDir, deps.now)
  }

  async list(caller: Caller): Promise<FlowFolder> {
    const { engine } = this.#deps
    engine.requireLoaded()
    const open = [...engine.flows().values()]
    const problems = engine.problems()
    return {
      folder: this.#files.folder,
      readOnly: this.#whyReadOnly(caller),
      files: (await this.#files.names()).map((file) => ({
        file,
        flow: open.find(({ loaded }) => loaded.file === file)?.loaded.flow.name ?? null,
        problems: problems.filter((one) => one.file === file).length,
      })),
    }
  }

  /** @throws AppError NOT_FOUND, FORBIDDEN. */
  async read(file: string, caller: Caller): Promise<FlowFile & { readOnly: WhyReadOnly | null }> {
    const found = await this.#files.read(file)
    const link: WhyReadOnly | null = found.isLink ? { code: 'link', message: linkText } : null
    return { ...found, readOnly: this.#whyReadOnly(caller) ?? link }
  }

  /** @throws AppError NOT_FOUND. */
  readVersion(file: string, id: string): Promise<{ text: string; hash: string }> {
    return this.#files.readVersion(file, id)
  }

  fromTemplate(
    template: TemplateName,
    name: string,
    from: TemplateSource | undefined,
  ): Checked & { text: string } {
    const { text } = flowFromTemplate({ template, name, from })
    return { text, ...viewOf(createFlowReader(this.#deps.files)(newText, Buffer.from(text))) }
  }

  /** The connections that flows may use, without their credentials. */
  async connections(): Promise<ConnectionView[]> {
    const { database, engine, files } = this.#deps
    const states = await listFlowStates(database.db)
    const asking = (connection: string) =>
      states.flatMap(({ flow, question }) => {
        const { connections = {} } = engine.flows().get(flow)?.loaded.flow.reach ?? {}
        const moved = question?.destinations?.filter((one) => one.isMoved) ?? []
        return moved.some(({ name }) => connections[name] === connection) ? [flow] : []
      })
    return [...loadConnections(files).byName.values()]
      .map(({ name, type, place }) => ({ name, type, place, asking: asking(name) }))
      .sort((left, right) => (left.name < right.name ? -1 : 1))
  }

  /**
   * Tries a connection; see connection-tests.ts.
   * @throws AppError NOT_FOUND, FORBIDDEN if the workbench is closed, and the reason of `signal`.
   */
  async testConnection(name: string, caller: Caller, signal: AbortSignal): Promise<ConnectionTest> {
    const connection = loadConnections(this.#deps.files).byName.get(name)
    if (!connection) throw controlError('NOT_FOUND', { code: 'CONNECTION_NOT_THERE' })
    this.#requireOpen(caller)
    return await testConnection(connection, this.#deps, signal)
  }

  /**
   * Findings of the checker for one definition: alone, or with `file` together with all others and opened as by a
   * reload.
   */
  async check(
    text: string,
    file: string | undefined,
    caller: Caller,
  ): Promise<Checked & Pick<CheckedModel, 'sendsAtOnce'>> {
    this.#requireOpen(caller)
    const read = await (file === undefined
      ? this.#readAlone(text)
      : this.#readBesideOthers(file, text))
    const sendsAtOnce = 'loaded' in read && (await this.#sendsAtOnce(read.loaded.flow))
    return { ...viewOf(read), sendsAtOnce }
  }

  async #sendsAtOnce({ name, startPaused }: Flow): Promise<boolean> {
    const { db } = this.#deps.database
    const state = await findFlowState(db, name)
    if (!state) return !startPaused
    return state.last_success_at === null && !(await isPaused(db, name))
  }

  /**
   * `file`: the file that the text would replace, if any.
   * @throws AppError BAD_REQUEST for findings, FORBIDDEN if the workbench is closed, RATE_LIMITED during another dry
   * run, PROVIDER_ERROR with the error of an unreadable source, and the reason of `signal`.
   */
  async dryRun(
    { text, file, count }: { text: string; file?: string | undefined; count: boolean },
    caller: Caller,
    signal: AbortSignal,
  ): Promise<DryRun & { name: string }> {
    this.#requireOpen(caller)
    return await this.#tryOut(() => this.#readAlone(text, file), count, caller, signal)
  }

  /**
   * The same of a file as it is on the disk. Its administrator has decided what it reaches, so the workbench need not be
   * open.
   * @throws AppError NOT_FOUND.
   */
  dryRunFile(
    file: string,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<DryRun & { name: string }> {
    const read = async () => this.#readText(file, (await this.#files.read(file)).text)
    return this.#tryOut(read, false, caller, signal)
  }

  /**
   * What the destinations of a flow would get for one item now; see item-requests.ts.
   * @throws AppError NOT_FOUND for a flow that is not open.
   */
  async itemRequests(name: string, pk: string): Promise<Awaited<ReturnType<typeof itemRequests>>> {
    const { database, engine } = this.#deps
    engine.requireLoaded()
    const flow = engine.flows().get(name)?.loaded.flow
    if (!flow) throw controlError('NOT_FOUND', { code: 'FLOW_UNKNOWN' })
    return itemRequests(database.db, flow, pk, this.#deps)
  }

  /**
   * Checks the definition together with all others, writes the file and reloads all files. `base`: see
   * FlowFiles.save.
   * @throws AppError BAD_REQUEST for findings, FORBIDDEN if nothing can be saved, CONFLICT if the file changed
   * meanwhile.
   */
  save(
    file: string,
    change: { text: string; base: string | null },
    caller: Caller,
  ): Promise<Saved> {
    // Each save is compared with the result of the previous one.
    return this.#saves.run('', () => this.#save(file, change, caller))
  }

  #whyClosed({ isAnonymous }: Caller) {
    if (this.#deps.setting === false) return closed.off
    if (!isAnonymous) return undefined
    if (this.#deps.isOpenToAll) return closed.openToAll
    return this.#deps.setting ? undefined : closed.anonymous
  }

  #requireOpen(caller: Caller) {
    const why = this.#whyClosed(caller)?.why
    if (why) throw controlError('FORBIDDEN', why)
  }

  #whyReadOnly(caller: Caller): WhyReadOnly | null {
    const isClosed = this.#whyClosed(caller)
    if (isClosed) return { code: isClosed.code, message: sentenceOf(isClosed.why, 'en') }
    const message = this.#files.whyReadOnly()
    return message === undefined ? null : { code: 'folder', message }
  }

  /** Problems that appear only when a definition is opened, as by a reload. */
  async #problemOfOpening(loaded: LoadedFlow): Promise<FlowProblemView | undefined> {
    try {
      await openFlow(loaded, { ...this.#deps, payments: this.#deps.feeds }).source.close()
      await (await openDryRunDeliveries(loaded.flow, this.#deps)).close()
      return undefined
    } catch (error) {
      return openingProblem(loaded.file, error)
    }
  }

  /** Undefined for a new file, and for one that cannot be read, such as a link that leads elsewhere. */
  async #readOnDisk(file: string) {
    try {
      return (await this.#files.names()).includes(file) ? await this.#files.read(file) : undefined
    } catch (error) {
      if (error instanceof AppError) return undefined
      throw error
    }
  }

  /**
   * Why the text may not be tried or saved here: an administrator decides on the disk what flows reach. It is checked
   * before references are resolved, so that no answer shows which variables and files exist.
   */
  async #refusalOf(
    file: string,
    text: string,
  ): Promise<{ problems: FlowProblemView[] } | undefined> {
    const yaml = parseYamlFile(Buffer.from(text))
    if ('findings' in yaml) return undefined
    const onDisk = await this.#readOnDisk(file)
    const base = onDisk && parseYamlFile(Buffer.from(onDisk.text))
    const findings = browserFindings(yaml.value, base && 'value' in base ? base.value : undefined, [
      ...loadConnections(this.#deps.files).byName.keys(),
    ])
    if (findings.length === 0) return undefined
    const shown = firstFindings(findings.map((finding) => placeFinding(finding, yaml)))
    return { problems: shown.map((finding) => problemOf(file, finding)) }
  }

  async #readText(file: string, text: string): Promise<Read> {
    const read = createFlowReader(this.#deps.files)(file, Buffer.from(text))
    if ('problems' in read) return read
    const problem = await this.#problemOfOpening(read.loaded)
    return problem ? { problems: [problem] } : read
  }

  async #readAlone(text: string, file = newText): Promise<Read> {
    return (await this.#refusalOf(file, text)) ?? this.#readText(file, text)
  }

  async #readBesideOthers(file: string, text: string): Promise<Read> {
    const refusal = await this.#refusalOf(file, text)
    if (refusal) return refusal
    const instead = { file, bytes: Buffer.from(text) }
    const { flows, problems } = await loadFlows(this.#deps.flowsDir, this.#deps.files, instead)
    const loaded = flows.find((one) => one.file === file)
    if (!loaded) return { problems: problems.filter((one) => one.file === file) }
    const problem = await this.#problemOfOpening(loaded)
    return problem ? { problems: [problem] } : { loaded }
  }

  /** One at a time. It is recorded among the actions of the flow. */
  async #tryOut(
    read: () => Promise<Read>,
    isCount: boolean,
    { actor }: Caller,
    signal: AbortSignal,
  ): Promise<DryRun & { name: string }> {
    if (this.#isRunning) {
      const extra = { retryAfterSeconds: 2 }
      throw controlError('RATE_LIMITED', { code: 'DRY_RUN_GOES_ON' }, { extra })
    }
    this.#isRunning = true
    try {
      const { loaded } = requireGood(await read())
      const { name } = loaded.flow
      await this.#deps.database.transaction((trx) =>
        recordAction(this.#deps, trx, {
          ...{ at: this.#deps.now(), flow: name, action: 'dry run', actor },
          detail: `definition ${loaded.definitionHash.slice(0, 16)}`,
        }),
      )
      return { name, ...(await dryRun(loaded, { ...this.#deps, isCount }, signal)) }
    } catch (error) {
      if (!(error instanceof SourceError)) throw error
      throw sourceUnreadable(error)
    } finally {
      this.#isRunning = false
    }
  }

  async #save(
    file: string,
    { text, base }: { text: string; base: string | null },
    caller: Caller,
  ): Promise<Saved> {
    this.#requireOpen(caller)
    const { actor } = caller
    const readOnly = this.#files.whyReadOnly()
    if (readOnly !== undefined) {
      throw controlError('FORBIDDEN', { code: 'FLOWS_FOLDER_READ_ONLY', data: { said: readOnly } })
    }
    const { loaded } = requireGood(await this.#readBesideOthers(file, text))
    const bytes = Buffer.from(text)
    const saved = await withLease(this.#deps, 'flow-files', () =>
      this.#files.save(file, bytes, base),
    )
    if (!saved) {
      throw controlError('CONFLICT', { code: 'FLOW_FILE_BEING_SAVED' })
    }
    const { hash } = saved.result
    const { name } = loaded.flow
    await this.#deps.database.transaction((trx) =>
      recordAction(this.#deps, trx, {
        at: this.#deps.now(),
        flow: name,
        action: base === null ? 'file created' : 'file changed',
        actor,
        detail: `${file}, sha256 ${hash}`,
      }),
    )
    await this.#deps.engine.reload(actor)
    const after = this.#deps.engine.problems().filter((one) => one.file === file)
    return { file, name, hash, problems: after }
  }
}

function viewOf(read: Read): Checked {
  return 'loaded' in read
    ? { name: read.loaded.flow.name, problems: [] }
    : { name: null, problems: read.problems }
}

/** @throws AppError BAD_REQUEST with the first finding. */
function requireGood(read: { loaded: LoadedFlow } | { problems: FlowProblemView[] }): {
  loaded: LoadedFlow
} {
  if ('loaded' in read) return read
  const [first] = read.problems
  const what: Reason | undefined = first && {
    code: 'KEY_AND_PROBLEM',
    data: { key: first.key || undefined, problem: first.why },
  }
  const why: Reason = { code: 'DEFINITION_WRONG', data: { line: first?.line, what } }
  throw controlErrorWithReason('BAD_REQUEST', why)
}

/** The file name in problems of a text without a file. */
const newText = 'new.flow.yaml'
const linkText = 'It is a link; change the file that it leads to'
const closed = {
  off: { code: 'off', why: { code: 'WORKBENCH_OFF' } },
  openToAll: { code: 'open_to_all', why: { code: 'WORKBENCH_OPEN_TO_ALL' } },
  anonymous: { code: 'anonymous', why: { code: 'WORKBENCH_ANONYMOUS' } },
} as const
