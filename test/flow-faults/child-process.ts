import { type ChildProcess, fork } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Order, Report, Where } from './child.ts'
import type { CrashPoint } from './crashing-database.ts'

const script = fileURLToPath(new URL('child.ts', import.meta.url))
const longestStartMs = 120_000
const longestAnswerMs = 5_000
/** A process that sends nothing in this time is not stopped at a request. */
const longestWaitForRequestMs = 1_500
/** Halves the time in which a process loads; there are hundreds of them. */
const compileCache = join(tmpdir(), 'tillbridge-compile-cache')

export type Child = {
  /** The name under which its requests tell that they are its own. */
  name: string
  /** Has read its modules and waits. */
  loaded: Promise<void>
  /** Begins; resolves with the name under which it holds leases. */
  begin(where: Omit<Where, 'child'>): Promise<string>
  /** It polls and delivers, and is asked under this address. */
  polling: Promise<string>
  /** Its address, once it polls. */
  address(): string | undefined
  /** It dies when it reaches this point. */
  arm(point: CrashPoint): void
  /** Its clock is set. */
  setClock(aheadMs: number): void
  /** What is written down as owed; undefined when it does not answer. */
  findOwed(): Promise<string[] | undefined>
  /** It stands still until `wake`. */
  freeze(): void
  /** As `freeze`, with a request that has its permit and is not sent; false when it sends none in that time. */
  freezeAtRequest(): Promise<boolean>
  wake(): void
  kill(): void
  ended: Promise<void>
  /** What it said at level error, and how often what at level warn. */
  errors: string[]
  warnings: Map<string, number>
  /** The steps that it came to. */
  passed: Set<string>
}

let started = 0

/** Starts a process of the flow side that waits for its order: loading takes longer than beginning. */
export function startChild(): Child {
  started += 1
  const name = `p${started}`
  const child = fork(script, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, NODE_COMPILE_CACHE: compileCache },
  })
  const errors: string[] = []
  const warnings = new Map<string, number>()
  const passed = new Set<string>()
  child.on('message', (report: Report) => {
    if (typeof report === 'object' && 'passes' in report) passed.add(report.passes)
    if (typeof report !== 'object' || !('said' in report)) return
    const { isError, message, line } = report.said
    if (isError) errors.push(line)
    else warnings.set(message, (warnings.get(message) ?? 0) + 1)
  })
  let address: string | undefined
  const polling = reported(child, longestStartMs, (report) => {
    address = typeof report === 'object' && 'polling' in report ? report.polling : undefined
    return address
  })
  // Most that die early are not waited for.
  polling.catch(() => undefined)
  // It may be dead before it has read what it was sent.
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
    findOwed: () => {
      const owed = reported(child, longestAnswerMs, (report) =>
        typeof report === 'object' && 'owed' in report ? report.owed : undefined,
      )
      send('what is owed')
      return owed.catch(() => undefined)
    },
    freeze: () => void child.kill('SIGSTOP'),
    freezeAtRequest: () => {
      const stopping = reported(child, longestAnswerMs, (report) =>
        report === 'stopping' ? true : undefined,
      )
      send({ stopAtRequestUntil: Date.now() + longestWaitForRequestMs })
      return stopping.catch(() => false)
    },
    wake: () => void child.kill('SIGCONT'),
    kill: () => void child.kill('SIGKILL'),
    ended: new Promise((resolve) => child.once('exit', () => resolve())),
    errors,
    warnings,
    passed,
  }
}

/** The first report that `find` makes something of; rejects when the process ends or stays silent. */
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
    const onExit = () => over(() => reject(new Error('the process ended before it had begun')))
    const timer = setTimeout(
      () => over(() => reject(new Error('the process does not begin'))),
      withinMs,
    )
    const over = (tell: () => void) => {
      clearTimeout(timer)
      child.off('message', onMessage)
      child.off('exit', onExit)
      tell()
    }
    child.on('message', onMessage)
    child.once('exit', onExit)
  })
}
