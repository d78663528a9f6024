import { type Backoff, backoffMs } from '../../domain/backoff.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { type BackgroundJob, createBackgroundJob } from '../../jobs/background-job.ts'
import { withLease } from '../../jobs/with-lease.ts'
import type { ProviderError } from '../../provider/provider.ts'
import { findNextCheck, markUnreachable } from '../../repositories/closings/closing-queries.ts'
import { listConnectedClients } from '../../repositories/connection/connection-queries.ts'
import {
  beginReadAgain,
  exchangeRead,
  findRead,
  planRead,
} from '../../repositories/provider-payments/payment-reads.ts'
import { readDueCases } from '../chargebacks/read-cases.ts'
import { checkDueClosings } from '../closings/check-due-closings.ts'
import { callForShop, type Shop } from '../connection/account-calls.ts'
import type { PaymentDeps } from '../deps.ts'
import { readPayments } from '../provider-payments/read-payments.ts'
import { findOrphans } from '../unclaimed-payments/unclaimed-payments.ts'

const minuteMs = 60_000
/** A charge without an order is found within ten minutes: this interval, the index's lag and the read itself. */
const everyMs = 3 * minuteMs
/** Clocks differ, and the index may lag longer at times: consecutive reads overlap by this. */
const overlapMs = 2 * minuteMs
/** How far back the first read of a shop goes. */
const firstReachMs = 24 * 60 * minuteMs
/** The longest span of one read: after a long stop the gap is read in such parts. */
const longestPartMs = 24 * 60 * minuteMs
const intervalMs = 10_000
/** An open closing is checked when it is due, but two runs are at least this far apart. */
const shortestMs = 250
const accountsAtOnce = 2
const measureWithinMs = 10_000
const pauses: Backoff = { firstMs: minuteMs, longestMs: 60 * minuteMs }

/** The name of a shop's read of what was made or changed. */
const changes = 'changes'
/** The name of its daily read of what was made, for payments that the search shows late. */
const made = 'made'
/**
 * The search has shown payments half an hour late, and some after a day. A payment that appears a day after it was made is in the
 * next daily read: this is that day, the day between two reads, and a day of margin.
 */
const madeReachMs = 3 * 24 * 60 * minuteMs
const madeEveryMs = 24 * 60 * minuteMs

/**
 * Reads the provider's payments of each connected shop: every few minutes those that were made or changed since the last read,
 * also those of other programs. One process at a time reads an account. The reads run beside the tills, one page at a time. They
 * wait with an account that answers "too many requests" or fails, and continue after a crash where they were.
 */
export class PaymentWatch {
  readonly #deps: PaymentDeps
  /** Shops that failed. In memory, so each process has its own list. */
  readonly #waits = new Map<string, { untilMs: number; failures: number }>()
  readonly #job: BackgroundJob<void>
  #unsubscribe: (() => void) | undefined

  constructor(deps: PaymentDeps) {
    this.#deps = deps
    this.#job = createBackgroundJob(deps, {
      name: 'payment-watch',
      intervalMs,
      untilNextMs: () => this.#untilNextClosingMs(),
      run: (stopped) => this.#watch(stopped),
    })
  }

  start(): void {
    // A hint: without it the next run finds the closing.
    this.#unsubscribe ??= this.#deps.events.subscribe(
      ({ kind, data }) => {
        if (kind === 'activity' && data.action === 'closing.opened') this.#job.wake()
      },
      () => undefined,
      ['activity'],
    )
    this.#job.start()
  }

  /** Aborts the page that is being read; the next process reads it again. */
  async stop(): Promise<void> {
    this.#unsubscribe?.()
    await this.#job.stop()
  }

  /** Reads all that is due at this moment. */
  watchOnce(): Promise<void> {
    return this.#job.once()
  }

  /** The provider said how long to wait, or the read makes no progress: the shop is not read until then. */
  #readLater(client: ClientName, error: unknown, failures: number) {
    const untilMs = this.#deps.now().getTime() + retryAfterMs(error, failures)
    this.#waits.set(client, { untilMs, failures: failures + 1 })
  }

  async #watchShop(shop: Shop, signal: AbortSignal) {
    const { client } = shop
    const failures = this.#waits.get(client)?.failures ?? 0
    const logFailure = (error: unknown) =>
      this.#deps.log.warn({ client, err: error }, 'provider payments not read yet')
    try {
      await measureClock(this.#deps, shop)
      await checkDueClosings(this.#deps, shop, signal)
    } catch (error) {
      if (signal.aborted) return
      logFailure(error)
      // Each closing waits by itself; new charges are read all the same.
      if (askedToWaitMs(error) > 0) {
        this.#readLater(client, error, failures)
        return
      }
    }
    const before = await howFar(this.#deps, client)
    try {
      await followChanges(this.#deps, shop, signal)
      await readLateShown(this.#deps, shop, signal)
      await findOrphans(this.#deps, shop, signal)
      await readDueCases(this.#deps, shop, signal)
      this.#waits.delete(client)
    } catch (error) {
      if (signal.aborted) return
      logFailure(error)
      // Occasional failures in a long list must not make the waits grow.
      const isOn = (await howFar(this.#deps, client)) !== before
      this.#readLater(client, error, isOn ? 0 : failures)
    }
  }

  /** Clients of one account run one after the other: one reader at a time calls it. */
  async #watchAccount(mpUserId: number, clients: readonly ClientName[], stopped: AbortSignal) {
    await withLease(this.#deps, `payments:${mpUserId}`, async ({ signal: lost }) => {
      const signal = AbortSignal.any([stopped, lost])
      for (const client of clients) await this.#watchShop({ client, mpUserId }, signal)
    })
  }

  async #watch(stopped: AbortSignal) {
    const nowMs = this.#deps.now().getTime()
    const due = new Map<number, ClientName[]>()
    for (const { client, mp_user_id } of await listConnectedClients(this.#deps.database.db)) {
      if ((this.#waits.get(client)?.untilMs ?? 0) > nowMs) continue
      due.set(mp_user_id, [...(due.get(mp_user_id) ?? []), client])
    }
    const accounts = [...due]
    const worker = async () => {
      for (let next = accounts.shift(); next !== undefined; next = accounts.shift()) {
        if (stopped.aborted) return
        await this.#watchAccount(...next, stopped)
      }
    }
    await Promise.all(Array.from({ length: accountsAtOnce }, worker))
    const later = new Date(nowMs + pauses.longestMs)
    await markUnreachable(this.#deps.database.db, this.#deps.now(), later)
  }

  async #untilNextClosingMs() {
    const now = this.#deps.now()
    const next = await findNextCheck(this.#deps.database.db, now)
    return next ? Math.max(shortestMs, next.getTime() - now.getTime()) : intervalMs
  }
}

function askedToWaitMs(error: unknown): number {
  const { retryAfterSeconds = null } = error as Partial<ProviderError>
  return (retryAfterSeconds ?? 0) * 1000
}

function retryAfterMs(error: unknown, failures: number): number {
  return Math.max(askedToWaitMs(error), backoffMs(failures + 1, pauses))
}

/** A value that changes with each page of the changes that was read. */
async function howFar(deps: PaymentDeps, client: ClientName): Promise<string> {
  const read = await findRead(deps.database.db, { client, name: changes })
  return `${read?.ends_at.getTime()} ${read?.next_offset}`
}

/** The dates of the answers measure the provider's clock; a process that had none yet makes a call for it. */
async function measureClock(deps: PaymentDeps, shop: Shop): Promise<void> {
  if (deps.providerClock.isMeasured()) return
  await callForShop(deps, shop, (token) =>
    deps.provider.users.me(token, { untilMs: deps.stopwatch() + measureWithinMs }),
  )
}

/** Once a day, reads again all that was made in the last days. A new shop's read of changes has them on the first day. */
async function readLateShown(
  deps: PaymentDeps,
  { client, mpUserId }: Shop,
  signal: AbortSignal,
): Promise<void> {
  const { db } = deps.database
  const name = { client, name: made }
  const providerNowMs = deps.providerClock.now().getTime()
  const span = {
    from: new Date(providerNowMs - madeReachMs),
    to: new Date(providerNowMs - deps.settings.searchLagMs),
  }
  const read = await findRead(db, name)
  if (!read) {
    await planRead(db, {
      ...name,
      mp_user_id: mpUserId,
      range: 'date_created',
      begins_at: span.from,
      ends_at: span.to,
      mp_pos_id: null,
      mp_store_id: null,
      finished_at: deps.now(),
    })
    return
  }
  const isOther = read.mp_user_id !== mpUserId
  const sinceMs = deps.now().getTime() - (read.finished_at?.getTime() ?? 0)
  const isDue = read.finished_at !== null && sinceMs >= madeEveryMs
  if (read.finished_at && !isDue && !isOther) return
  if (isDue || isOther) await beginReadAgain(db, read, { mpUserId, ...span })
  await readPayments(deps, name, signal)
}

/** Reads what was made or changed at the account until a minute ago, when that is due. */
async function followChanges(
  deps: PaymentDeps,
  { client, mpUserId }: Shop,
  signal: AbortSignal,
): Promise<void> {
  const { db } = deps.database
  const name = { client, name: changes }
  for (;;) {
    if (signal.aborted) return
    const nowMs = deps.providerClock.now().getTime()
    const surelyMs = nowMs - deps.settings.searchLagMs
    const read = await findRead(db, name)
    if (!read) {
      await planRead(db, {
        ...name,
        mp_user_id: mpUserId,
        range: 'date_last_updated',
        begins_at: new Date(nowMs - firstReachMs),
        ends_at: new Date(surelyMs),
        mp_pos_id: null,
        mp_store_id: null,
      })
    } else if (read.mp_user_id !== mpUserId) {
      // After its return to an account the client's read continues where it was.
      const accounts = { from: read.mp_user_id, to: mpUserId }
      await deps.database.transaction((trx) => exchangeRead(trx, name, accounts))
      continue
    } else if (read.finished_at) {
      // Our clock may have been ahead when it was read: then the search did not have its last payments.
      const beganMs = deps.providerClock.toProviders(read.began_at ?? read.finished_at).getTime()
      const readUntilMs = Math.min(read.ends_at.getTime(), beganMs - deps.settings.searchLagMs)
      const isBehind = surelyMs - readUntilMs > longestPartMs
      if (!isBehind && deps.now().getTime() - read.finished_at.getTime() < everyMs) return
      const fromMs = readUntilMs - overlapMs
      const toMs = Math.min(surelyMs, fromMs + longestPartMs)
      if (toMs <= readUntilMs) return
      await beginReadAgain(db, read, { mpUserId, from: new Date(fromMs), to: new Date(toMs) })
    }
    if ((await readPayments(deps, name, signal)) === 'open') return
  }
}
