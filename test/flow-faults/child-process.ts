import { type ChildProcess, fork } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Order, Report, Where } from './child.ts'
import type { CrashPoint } from './crashing-database.ts'

const script = fileURLToPath(new URL('child.ts', import.meta.url))
const longestStartMs = 120_000
const longestAnswerMs = 5_000
/** A process that sends no request in this time is not suspended at one. */
const longestWaitForRequestMs = 1_500
/** Halves the time to load; a run starts hundreds of processes. */
const compileCache = join(tmpdir(), 'tillbridge-compile-cache')

export type Child = {
  /** Its requests carry this name in a header. */
  name: string
  /** Resolves when its modules are loaded. */
  loaded: Promise<void>
  /** Starts the service; resolves with the owner name of its leases. */
  begin(where: Omit<Where, 'child'>): Promise<string>
  /** Resolves with the address of its control API when it polls and delivers. */
  polling: Promise<string>
  /** Its address, once it polls. */
  address(): string | undefined
  /** It kills itself when it reaches this point. */
  arm(point: CrashPoint): void
  /** Sets its clock. */
  setClock(aheadMs: number): void
  /** The open deliveries of its database; undefined when it does not answer. */
  findOpenDeliveries(): Promise<string[] | undefined>
  /** Stops it until `resume`. */
  suspend(): void
  /** As `suspend`, with a request that is permitted and not sent; false when it sends none in that time. */
  suspendAtRequest(): Promise<boolean>
  resume(): void
  kill(): void
  ended: Promise<void>
  /** Its log lines at level error, and the count of each message at level warn. */
  errors: string[]
  warnings: Map<string, number>
  /** The items, as flow/destination/pk, of which it logged that they are sent again because of its late requests. */
  sentAgain: Set<string>
  /** The steps that it reached. */
  passed: Set<string>
}

/** The service logs it with the flow, destination and key of the item, after the commit. */
export const lateRequest = 'a late request may have arrived; the item is sent again'

let started = 0

/** Starts a process of the flow side that loads and waits for its order, since loading takes longer than the start. */
export function startChild(): Child {
  started += 1
  const name = `p${started}`
  const child = fork(script, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, NODE_COMPILE_CACHE: compileCache },
  })
  const errors: string[] = []
  const warnings = new Map<string, number>()
  const sentAgain = new Set<string>()
  const passed = new Set<string>()
  child.on('message', (report: Report) => {
    if (typeof report === 'object' && 'passes' in report) passed.add(report.passes)
    if (typeof report !== 'object' || !('logged' in report)) return
    const { isError, message, line } = report.logged
    if (isError) errors.push(line)
    else warnings.set(message, (warnings.get(message) ?? 0) + 1)
    if (message !== lateRequest) return
    const { flow, destination, pk } = JSON.parse(line) as Record<string, string>
    sentAgain.add(`${flow}/${destination}/${pk}`)
  })
  let address: string | undefined
  const polling = reported(child, longestStartMs, (report) => {
    address = typeof report === 'object' && 'polling' in report ? report.polling : undefined
    return address
  })
  // Nobody awaits this of a process that is killed early.
  polling.catch(() => undefined)
  // It may be killed before it reads the order.
  const send = (order: Order) => child.send(order, () => undefined)
  return {
    name,
    loaded: reported(child, longestStartMs, (report) => report === 'loaded' || undefined).then(
      () => undefined,
    ),
    polling,
    address: () => address,
    begin: (where) => {
      const beginning = reported(child, longestStartMs, (report) =>
        typeof report === 'object' && 'beginning' in report
          ? report.beginning.processId
          : undefined,
      )
      send({ begin: { ...where, child: name } })
      return beginning
    },
    arm: (point) => send({ arm: point }),
    setClock: (aheadMs) => send({ aheadMs }),
    findOpenDeliveries: () => {
      const deliveries = reported(child, longestAnswerMs, (report) =>
        typeof report === 'object' && 'openDeliveries' in report
          ? report.openDeliveries
          : undefined,
      )
      send('list open deliveries')
      return deliveries.catch(() => undefined)
    },
    suspend: () => void child.kill('SIGSTOP'),
    suspendAtRequest: () => {
      const stopping = reported(child, longestAnswerMs, (report) =>
        report === 'stopping' ? true : undefined,
      )
      send({ stopAtRequestUntil: Date.now() + longestWaitForRequestMs })
      return stopping.catch(() => false)
    },
    resume: () => void child.kill('SIGCONT'),
    kill: () => void child.kill('SIGKILL'),
    ended: new Promise((resolve) => child.once('exit', () => resolve())),
    errors,
    warnings,
    sentAgain,
    passed,
  }
}

/** The first report for which `find` returns a value; rejects when the process ends or the time is over. */
function reported<T>(
  child: ChildProcess,
  withinMs: number,
  find: (report: Report) => T | undefined,
): Promise<NonNullable<T>> {
  return new Promise((resolve, reject) => {
    const onMessage = (report: Report) => {
      const found = find(report)
      if (found !== undefined && found !== null) over(() => resolve(found))
    }
    const onExit = () => over(() => reject(new Error('the process ended before its report')))
    const timer = setTimeout(
      () => over(() => reject(new Error('the process sent no report in time'))),
      withinMs,
    )
    const over = (settle: () => void) => {
      clearTimeout(timer)
      child.off('message', onMessage)
      child.off('exit', onExit)
      settle()
    }
    child.on('message', onMessage)
    child.once('exit', onExit)
  })
}
