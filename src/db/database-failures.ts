import { codeOf } from '../domain/error-code.ts'
import { OperatorError } from '../errors/operator-error.ts'

/** The database was unreachable, or became so during a query: whether a running COMMIT took effect is unknown. */
export class DatabaseUnavailableError extends OperatorError {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'DatabaseUnavailableError'
  }
}

/** The configuration of the database or of the connection does not fit the service; the message says what to do. */
export class UnfitDatabaseError extends OperatorError {
  override readonly name: string = 'UnfitDatabaseError'
}

/** Another process uses the folder; two at once would lose data silently. */
export class DatabaseLockedError extends OperatorError {
  readonly folder: string

  constructor(folder: string, options?: { cause?: unknown }) {
    super(`The data folder ${folder} is in use by another process`, options)
    this.name = 'DatabaseLockedError'
    this.folder = folder
  }
}

/** A mistake in the program: on the embedded database this query would wait for its own transaction for ever. */
export class OpenTransactionError extends Error {
  constructor() {
    super('A transaction is open in this flow: use its handle instead of the database')
    this.name = 'OpenTransactionError'
  }
}

// SQLSTATE, appendix A of the PostgreSQL manual. 53 includes a full disk and too many connections, 58 failed disk access.
const unavailableClasses = new Set(['08', '53', '58'])
const unavailableStates = new Set([
  '25006', // read-only transaction: after a failover this server is a standby
  '25P03', // idle_in_transaction_session_timeout
  '25P04', // transaction_timeout
  '40001', // serialization failure and
  '40P01', // deadlock: nothing was written, and the retries of `transaction` are spent
  '55P03', // lock_timeout
  '57014', // statement_timeout
  '57P01', // admin_shutdown
  '57P02', // crash_shutdown
  '57P03', // cannot_connect_now: starting up or shutting down
  '57P05', // idle_session_timeout
])
const lastStates = new Set(['25006', '25P03', '25P04', '57P01', '57P02', '57P03', '57P05'])
const socketCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])

/**
 * Whether a retry may help: the caller gets 503, and what was stored is unknown. Checks the `cause` chain by class
 * and code only. For some failures pg gives only text (an ended connection, the time-out of its pool). The pool of
 * this folder turns these into DatabaseUnavailableError.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  let current = error
  // A chain made by hand could be circular; real ones are not this deep.
  for (let depth = 0; depth < 10 && current instanceof Error; depth++) {
    if (current instanceof DatabaseUnavailableError) return true
    const code = codeOf(current)
    if (code !== undefined && (isUnavailableState(code) || socketCodes.has(code))) return true
    current = current.cause
  }
  return false
}

/**
 * Whether the connection of this error is unusable. The server is closing it (its socket may close later), or has
 * become a standby, where every write fails.
 */
export function endsConnection(error: unknown): boolean {
  const code = codeOf(error)
  return code !== undefined && (lastStates.has(code) || /^08...$/.test(code))
}

/** The name of the violated constraint for a unique (23505), check (23514) or foreign key (23503) violation. */
export function constraintOf(error: unknown): string | undefined {
  const code = codeOf(error)
  if (code !== '23505' && code !== '23514' && code !== '23503') return undefined
  const { constraint } = error as { constraint?: unknown }
  return typeof constraint === 'string' ? constraint : undefined
}

/** Whether the whole transaction may be run again: a serialization failure, a deadlock or an outdated statement. */
export function isRepeatable(error: unknown): boolean {
  const code = codeOf(error)
  return code === '40001' || code === '40P01' || isOutdatedStatement(error)
}

/**
 * Whether a prepared statement is outdated: a migration changed its columns, or the session lost it. It did not run,
 * and works once prepared again.
 */
export function isOutdatedStatement(error: unknown): boolean {
  const code = codeOf(error)
  if (code === '26000') return true
  // 0A000 has many meanings; this one comes from the function that checks whether a plan still fits.
  return code === '0A000' && (error as { routine?: unknown }).routine === 'RevalidateCachedQuery'
}

/**
 * Keeps the values of a failed query out of the log. Both databases put whole rows into `detail` and parameters into
 * `where`, PGlite also into `params`. They stay readable by name, but are not listed among the properties.
 */
export function hideValues(error: unknown): void {
  if (!(error instanceof Error)) return
  for (const name of ['detail', 'where', 'internalQuery', 'params', 'queryOptions']) {
    if (Object.hasOwn(error, name)) Object.defineProperty(error, name, { enumerable: false })
  }
}

function isUnavailableState(code: string): boolean {
  return (
    unavailableStates.has(code) || (code.length === 5 && unavailableClasses.has(code.slice(0, 2)))
  )
}
