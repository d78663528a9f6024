import type { ClientName } from '../../domain/client-name.ts'
import { withLease } from '../../jobs/with-lease.ts'
import type { ProviderError } from '../../provider/provider.ts'
import { findNextCheck, markUnreachable } from '../../repositories/closings/closing-queries.ts'
import { listConnectedClients } from '../../repositories/connection/connection-queries.ts'
import {
  beginReadAgain,
  findRead,
  wantRead,
} from '../../repositories/provider-payments/payment-reads.ts'
import { watchChargebacks } from '../chargebacks/watch-cases.ts'
import { checkDueClosings } from '../closings/check-closing.ts'
import type { PaymentDeps } from '../deps.ts'
import { findOrphans } from '../unclaimed-payments/unclaimed-payments.ts'
import { readPayments } from './read-payments.ts'

/**
 * Follows what the provider itself has of each connected shop: every few minutes the payments that were made or changed since
 * the last look, whoever made them. One process at a time reads an account. It works beside the tills, a page at a time,
 * leaves an account alone that says "too many" or fails, and goes on after a crash where it was.
 */
export type PaymentWatch = {
  start(): void
  /** Cuts the page that is being read; the next process reads it again. */
  stop(): Promise<void>
  /** Reads all that is due at this moment. */
  watchOnce(): Promise<void>
}

const minuteMs = 60_000
/** A charge that nobody here knows of is found within ten minutes: this, the index's lag and the reading itself. */
const everyMs = 3 * minuteMs
/** Clocks differ, and the index may lag longer once in a while: what was read is read a little over. */
const overlapMs = 2 * minuteMs
/** How far back the first look at a shop goes. */
const firstReachMs = 24 * 60 * minuteMs
/** The longest time that is read at once: after a long stop it is caught up in such parts. */
const longestPartMs = 24 * 60 * minuteMs
const lookAgainMs = 10_000
/** A closing that somebody waits for is looked at when it is due, and rounds still do not chase each other. */
const betweenRoundsMs = 250
const accountsAtOnce = 2
const longestRetryMs = 60 * minuteMs

/** The name of a shop's reading of what was made or changed. */
const changes = 'changes'

type Shop = { client: ClientName; mpUserId: number }

export function createPaymentWatch(deps: PaymentDeps): PaymentWatch {
  const stopped = new AbortController()
  /** Shops that failed. In memory: each process learns for itself. */
  const waits = new Map<string, { untilMs: number; failures: number }>()
  let woken = new AbortController()
  let loop: Promise<void> | undefined
  let forget: (() => void) | undefined

  /** The provider said how long it wants to be left alone, or nothing is got on with: the shop is not asked until then. */
  const leaveAlone = (client: ClientName, error: unknown, failures: number) => {
    const untilMs = deps.now().getTime() + retryAfterMs(error, failures)
    waits.set(client, { untilMs, failures: failures + 1 })
  }

  const watchShop = async (shop: Shop, signal: AbortSignal) => {
    const { client } = shop
    const failures = waits.get(client)?.failures ?? 0
    const tell = (error: unknown) =>
      deps.log.warn({ client, err: error }, "the provider's payments could not be read yet")
    try {
      await checkDueClosings(deps, shop, signal)
    } catch (error) {
      if (signal.aborted) return
      tell(error)
      // Each closing waits by itself; what is charged meanwhile is followed all the same.
      if (askedToWaitMs(error) > 0) {
        leaveAlone(client, error, failures)
        return
      }
    }
    const before = await howFar(deps, client)
    try {
      await followChanges(deps, shop, signal)
      await findOrphans(deps, shop, signal)
      await watchChargebacks(deps, shop, signal)
      waits.delete(client)
    } catch (error) {
      if (signal.aborted) return
      tell(error)
      // A long list with a failure now and then must not wait ever longer.
      const isOn = (await howFar(deps, client)) !== before
      leaveAlone(client, error, isOn ? 0 : failures)
    }
  }

  /** Clients of one account one after the other: it is asked by one reader at a time. */
  const watchAccount = async (mpUserId: number, clients: readonly ClientName[]) => {
    await withLease(deps, `payments:${mpUserId}`, async ({ signal: lost }) => {
      const signal = AbortSignal.any([stopped.signal, lost])
      for (const client of clients) await watchShop({ client, mpUserId }, signal)
    })
  }

  const watchOnce = async () => {
    const nowMs = deps.now().getTime()
    const due = new Map<number, ClientName[]>()
    for (const { client, mp_user_id } of await listConnectedClients(deps.database.db)) {
      if ((waits.get(client)?.untilMs ?? 0) > nowMs) continue
      due.set(mp_user_id, [...(due.get(mp_user_id) ?? []), client])
    }
    const accounts = [...due]
    const worker = async () => {
      for (let next = accounts.shift(); next !== undefined; next = accounts.shift()) {
        if (stopped.signal.aborted) return
        await watchAccount(...next)
      }
    }
    await Promise.all(Array.from({ length: accountsAtOnce }, worker))
    const later = new Date(nowMs + longestRetryMs)
    await markUnreachable(deps.database.db, deps.now(), later)
  }

  /** Until a closing is due, or the next round is. */
  const rest = async () => {
    const now = deps.now()
    const next = await findNextCheck(deps.database.db, now).catch(() => undefined)
    const untilNextMs = next ? next.getTime() - now.getTime() : lookAgainMs
    const ms = Math.max(betweenRoundsMs, Math.min(lookAgainMs, untilNextMs))
    const signal = AbortSignal.any([stopped.signal, woken.signal])
    await deps.sleep(ms, signal).catch(() => undefined)
    if (woken.signal.aborted) woken = new AbortController()
  }

  return {
    watchOnce,
    start() {
      // A hint: without it the closing is seen in the next round.
      forget ??= deps.news.follow(
        ({ kind, data }) => {
          if (kind === 'activity' && data.action === 'closing.opened') woken.abort()
        },
        () => undefined,
      )
      loop ??= (async () => {
        while (!stopped.signal.aborted) {
          await watchOnce().catch((error) =>
            deps.log.error({ err: error }, "a round over the provider's payments failed"),
          )
          await rest()
        }
      })()
    },
    async stop() {
      stopped.abort()
      forget?.()
      await loop
    },
  }
}

function askedToWaitMs(error: unknown): number {
  const { retryAfterSeconds = null } = error as Partial<ProviderError>
  return (retryAfterSeconds ?? 0) * 1000
}

function retryAfterMs(error: unknown, failures: number): number {
  return Math.max(askedToWaitMs(error), Math.min(longestRetryMs, minuteMs * 2 ** failures))
}

/** Changes with each page of the changes that was read. */
async function howFar(deps: PaymentDeps, client: ClientName): Promise<string> {
  const read = await findRead(deps.database.db, { client, name: changes })
  return `${read?.ends_at.getTime()} ${read?.next_offset}`
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
    const nowMs = deps.now().getTime()
    const surelyMs = nowMs - deps.settings.searchLagMs
    const read = await findRead(db, name)
    if (!read) {
      await wantRead(db, {
        ...name,
        mp_user_id: mpUserId,
        range: 'date_last_updated',
        begins_at: new Date(nowMs - firstReachMs),
        ends_at: new Date(surelyMs),
        mp_pos_id: null,
        mp_store_id: null,
      })
    } else if (read.mp_user_id !== mpUserId) {
      const from = new Date(nowMs - firstReachMs)
      await beginReadAgain(db, read, { mpUserId, from, to: new Date(surelyMs) })
    } else if (read.finished_at) {
      const isBehind = surelyMs - read.ends_at.getTime() > longestPartMs
      if (!isBehind && nowMs - read.finished_at.getTime() < everyMs) return
      const fromMs = read.ends_at.getTime() - overlapMs
      const toMs = Math.min(surelyMs, fromMs + longestPartMs)
      if (toMs <= read.ends_at.getTime()) return
      await beginReadAgain(db, read, { mpUserId, from: new Date(fromMs), to: new Date(toMs) })
    }
    if ((await readPayments(deps, name, signal)) === 'open') return
  }
}
