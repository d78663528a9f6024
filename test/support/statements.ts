import { AsyncLocalStorage } from 'node:async_hooks'
import { PGlite } from '@electric-sql/pglite'
import { Client } from 'pg'
import { SentStatements } from './sent-statements.ts'
import { listPrepared } from './worker-database.ts'

export type Recorded<T> = {
  result: T
  /** What `work` itself sent to the database, in order: each one round trip, begin and commit included. */
  own: string[]
  /** What others sent meanwhile: loops that were started before, and whatever a timer began. */
  background: string[]
}

type Recording = { own: string[]; background: string[] }

const recordings = new Set<Recording>()
const flow = new AsyncLocalStorage<Recording>()

/** The pool sends it on a connection that was idle for long: it depends on time, not on the work. */
const upkeep = 'select 1'

/**
 * Runs `work` and records every statement that reaches the driver of either database, as it is sent. What belongs to `work`
 * is told by its asynchronous flow, so use `app.inject`, not a socket. Work that it leaves behind counts as its own as long
 * as this runs: let `work` wait for it, or for nothing of it. A timer's work is background, unless `work` awaits it.
 */
export async function recordStatements<T>(work: () => Promise<T>): Promise<Recorded<T>> {
  instrumented ??= instrument()
  await instrumented
  const recording: Recording = { own: [], background: [] }
  recordings.add(recording)
  try {
    const result = await flow.run(recording, work)
    return { result, ...recording }
  } finally {
    recordings.delete(recording)
  }
}

/** The statements that `work` itself makes; see `recordStatements`. */
export async function countStatements(work: () => Promise<unknown>): Promise<string[]> {
  return (await recordStatements(work)).own
}

function note(sql: string): void {
  if (sql === upkeep) return
  const mine = flow.getStore()
  for (const recording of recordings) {
    ;(recording === mine ? recording.own : recording.background).push(sql)
  }
}

let instrumented: Promise<void> | undefined

/** At the lowest place that still belongs to the flow: what pg's client is given, and what PGlite's protocol carries. */
async function instrument(): Promise<void> {
  const { query } = Client.prototype
  Client.prototype.query = function (this: Client, ...args: unknown[]) {
    const [config] = args as [string | { text?: string; name?: string }]
    if (recordings.size > 0) {
      note(typeof config === 'string' ? config : (config.text ?? config.name ?? ''))
    }
    return Reflect.apply(query, this, args)
  } as typeof query

  const execute = PGlite.prototype.execProtocolRawSync
  const sent = new WeakMap<PGlite, SentStatements>()
  const statementsOf = (pglite: PGlite) => {
    const statements = sent.get(pglite) ?? new SentStatements()
    sent.set(pglite, statements)
    return statements
  }
  PGlite.prototype.execProtocolRawSync = function (message) {
    // Always, so that what was prepared before a recording is known in it.
    for (const sql of statementsOf(this).read(message)) if (recordings.size > 0) note(sql)
    return execute.call(this, message)
  }

  // What is awaited goes on in the flow of whoever awaits it; what is left to a timer is nobody's request.
  const { setTimeout, setInterval } = globalThis
  const outside = <A extends unknown[]>(callback: (...args: A) => void) =>
    flow.getStore() ? (...args: A) => flow.exit(callback, ...args) : callback
  globalThis.setTimeout = Object.assign(
    ((callback: () => void, ...rest: unknown[]) =>
      Reflect.apply(setTimeout, globalThis, [outside(callback), ...rest])) as typeof setTimeout,
    setTimeout,
  )
  globalThis.setInterval = Object.assign(
    ((callback: () => void, ...rest: unknown[]) =>
      Reflect.apply(setInterval, globalThis, [outside(callback), ...rest])) as typeof setInterval,
    setInterval,
  )

  for (const [pglite, prepared] of await listPrepared()) statementsOf(pglite).add(prepared)
}
