import { randomBytes, randomInt } from 'node:crypto'

const crockford = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** A ULID: 48 bits of milliseconds, 80 random bits, 26 characters of Crockford base 32. */
export function ulid(nowMs: number): string {
  let head = ''
  for (let rest = nowMs, i = 0; i < 10; i += 1) {
    head = (crockford[rest % 32] ?? '0') + head
    rest = Math.floor(rest / 32)
  }
  let tail = ''
  for (const byte of randomBytes(16)) tail += crockford[byte % 32] ?? '0'
  return head + tail
}

/** The form of an order id (provider facts 0.4); another form is `invalid_path_param`. */
export const orderIdPattern = /^ORD(TST)?[0-9A-HJKMNP-TV-Z]{26}$/

/** Test credentials give `ORDTST…`, production ones `ORD…`. */
export function newOrderId(nowMs: number, liveMode: boolean): string {
  return `${liveMode ? 'ORD' : 'ORDTST'}${ulid(nowMs)}`
}

/** A random number with this many digits, at most 14. */
export function newNumber(digits: number): number {
  const low = 10 ** (digits - 1)
  return low + randomInt(low * 9)
}

/** An unused number: stores and POS have integer ids in answers. */
export function newFreeNumber(digits: number, taken: (candidate: number) => boolean): number {
  for (;;) {
    const candidate = newNumber(digits)
    if (!taken(candidate)) return candidate
  }
}

/** Authorization codes and refresh tokens have one form: `TG-<hash>-<user id>`. */
export function newGrant(userId: number): string {
  return `TG-${randomBytes(12).toString('hex')}-${userId}`
}

/** `APP_USR-<client id>-<MMddHH>-<hash>-<user id>`. */
export function newAccessToken(clientId: string, userId: number, nowMs: number): string {
  const stamp = new Date(nowMs).toISOString()
  const hour = stamp.slice(5, 7) + stamp.slice(8, 10) + stamp.slice(11, 13)
  return `APP_USR-${clientId}-${hour}-${randomBytes(16).toString('hex')}-${userId}`
}

let lastMs = 0
let lastFraction = 0

/**
 * An order timestamp: UTC with nine fraction digits (provider facts 0.4). Later calls in one millisecond give a later
 * stamp, so `last_updated_date` is never before `created_date`.
 */
export function nanoStamp(nowMs: number): string {
  const fraction = randomInt(1, 500_000)
  if (nowMs === lastMs) lastFraction = Math.min(999_999, lastFraction + 1 + (fraction % 997))
  else lastFraction = fraction
  lastMs = nowMs
  return `${new Date(nowMs).toISOString().slice(0, -1)}${String(lastFraction).padStart(6, '0')}Z`
}
