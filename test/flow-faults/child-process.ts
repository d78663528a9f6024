import { type ChildProcess, fork } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Order, Report } from './child.ts'
import type { CrashPoint } from './crashing-database.ts'

const script = fileURLToPath(new URL('child.ts', import.meta.url))
const longestStartMs = 120_000
/** Halves the time in which a process loads; there are hundreds of them. */
const compileCache = join(tmpdir(), 'tillbridge-compile-cache')

export type Child = {
  /** Has read its modules and waits. */
  loaded: Promise<void>
  /** Begins; resolves with the name under which it holds leases. */
  begin(where: { databaseUrl: string; flowsDir: string }): Promise<string>
  /** It polls and delivers. */
  polling: Promise<void>
  /** It dies when it reaches this point. */
  arm(point: CrashPoint): void
  /** Its clock is set. */
  setClock(aheadMs: number): void
  /** It stands still until `wake`. */
  freeze(): void
  wake(): void
  kill(): void
  ended: Promise<void>
  /** What it said at level error. */
  errors: string[]
}

/** Starts a process of the flow side that waits for its order: loading takes longer than beginning. */
export function startChild(): Child {
  const child = fork(script, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, NODE_COMPILE_CACHE: compileCache },
  })
  const errors: string[] = []
  child.on('message', (message: Report) => {
    if (typeof message === 'object' && 'error' in message) errors.push(message.error)
  })
  const polling = reported(child, (message) => message === 'polling' || undefined).then(
    () => undefined,
  )
  // Most that die early are not waited for.
  polling.catch(() => undefined)
  // It may be dead before it has read what it was sent.
  const send = (order: Order) => child.send(order, () => undefined)
  return {
    loaded: reported(child, (message) => message === 'loaded' || undefined).then(() => undefined),
    polling,
    begin: (where) => {
      const beginning = reported(child, (message) =>
        typeof message === 'object' && 'beginning' in message
          ? message.beginning.processId
          : undefined,
      )
      send({ begin: where })
      return beginning
    },
    arm: (point) => send({ arm: point }),
    setClock: (aheadMs) => send({ aheadMs }),
    freeze: () => void child.kill('SIGSTOP'),
    wake: () => void child.kill('SIGCONT'),
    kill: () => void child.kill('SIGKILL'),
    ended: new Promise((resolve) => child.once('exit', () => resolve())),
    errors,
  }
}

/** The first report that `find` makes something of; rejects when the process ends or stays silent. */
function reported<T>(
  child: ChildProcess,
  find: (message: Report) => T | undefined,
): Promise<NonNullable<T>> {
  return new Promise((resolve, reject) => {
    const onMessage = (message: Report) => {
      const found = find(message)
      if (found !== undefined && found !== null) over(() => resolve(found))
    }
    const onExit = () => over(() => reject(new Error('the process ended before it had begun')))
    const timer = setTimeout(
      () => over(() => reject(new Error('the process does not begin'))),
      longestStartMs,
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
