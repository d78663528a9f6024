/** How long an intent counts as being worked on by the request that made it; a call to the provider ends before. */
export const operationInFlightMs = 45_000

const longestWaitMs = 15 * 60_000

/** When the sweeper takes up an open cancel or refund: after the request is over, then ever more rarely. */
export function nextOperationAttempt(now: Date, attempts: number): Date {
  const waitMs =
    attempts === 0 ? operationInFlightMs : Math.min(longestWaitMs, 10_000 * 2 ** attempts)
  return new Date(now.getTime() + waitMs)
}
