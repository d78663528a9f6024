import type { ClientName } from '../../domain/client-name.ts'
import { AppError } from '../../errors/app-error.ts'
import { findClosingState } from '../../repositories/closings/closing-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import type { FeedWait } from '../events/feed.ts'

/** A closing is compared a minute after its time at the earliest: its state is read as often as a person would notice. */
const readAgainMs = 1_000

/**
 * Waits until a closing has its result, the time is up, or the client disconnects.
 *
 * @throws NOT_FOUND, and what `checkAccess` throws
 */
export async function waitForResult(
  deps: Pick<PaymentDeps, 'database' | 'sleep' | 'stopwatch'>,
  client: ClientName,
  id: string,
  { seconds, signal, checkAccess }: FeedWait,
): Promise<void> {
  const until = deps.stopwatch() + seconds * 1_000
  for (;;) {
    const state = await findClosingState(deps.database.db, client, id)
    if (state === undefined) throw noClosing()
    const leftMs = until - deps.stopwatch()
    if ((state !== 'open' && state !== 'checking') || leftMs <= 0 || signal.aborted) return
    await deps.sleep(Math.min(leftMs, readAgainMs), signal).catch(() => undefined)
    await checkAccess()
  }
}

/** For a closing that the client does not have. */
export function noClosing(): AppError {
  return new AppError('NOT_FOUND', { message: 'There is no such closing' })
}
