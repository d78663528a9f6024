/** The longest Retry-After that is obeyed: after a longer one the next request is sent sooner. */
export const longestRetryAfterMs = 3600_000

/** The receiver's Retry-After in milliseconds, one hour at most; 0 without one. */
export function retryAfterMs(retryAfterSeconds: number | null | undefined): number {
  return Math.min((retryAfterSeconds ?? 0) * 1_000, longestRetryAfterMs)
}

/**
 * Seconds of a `Retry-After` header: a number of seconds or an HTTP date (RFC 9110, 10.2.3); null when absent or
 * unreadable. A date in the past is 0.
 */
export function parseRetryAfter(
  header: string | string[] | undefined,
  nowMs: number,
): number | null {
  const text = (Array.isArray(header) ? header[0] : header)?.trim()
  if (!text) return null
  if (/^[0-9]{1,9}$/.test(text)) return Number(text)
  if (!/^[A-Za-z]{3,9},? /.test(text)) return null
  const at = Date.parse(text)
  return Number.isNaN(at) ? null : Math.max(0, Math.ceil((at - nowMs) / 1000))
}
