import type { ServerBudget } from '../types.ts'

type Headers = Readonly<Record<string, string | string[] | undefined>>

/** Seconds since 1970; smaller numbers are a time from now on. */
const leastInstant = 1_000_000_000

/**
 * What an answer says of the requests that its server still takes: `RateLimit` and its older forms (draft-ietf-httpapi-ratelimit-headers),
 * `x-rate-limit-*` (whose reset is in milliseconds, as of Tiendanube), `x-ratelimit-*` (in seconds), and Shopify's
 * `x-shopify-shop-api-call-limit: 32/40`. Undefined when it says nothing that can be read.
 */
export function readServerBudget(headers: Headers, nowMs: number): ServerBudget | undefined {
  const of = (name: string) => {
    const value = headers[name]
    return (Array.isArray(value) ? value[0] : value)?.trim()
  }
  const structured = readStructured(of('ratelimit'), of('ratelimit-policy'))
  if (structured) return structured
  for (const prefix of ['ratelimit-', 'x-ratelimit-', 'x-rate-limit-']) {
    const remaining = whole(of(`${prefix}remaining`))
    if (remaining === undefined) continue
    const limit = whole(of(`${prefix}limit`))
    const reset = number(of(`${prefix}reset`))
    const unitMs = prefix === 'x-rate-limit-' ? 1 : 1_000
    return {
      remaining,
      ...(limit !== undefined && { limit }),
      ...(reset !== undefined && { resetMs: untilMs(reset, unitMs, nowMs) }),
    }
  }
  const calls = /^(\d+)\s*\/\s*(\d+)$/.exec(of('x-shopify-shop-api-call-limit') ?? '')
  if (!calls) return undefined
  const limit = Number(calls[2])
  return { limit, remaining: Math.max(0, limit - Number(calls[1])) }
}

/** `"default";r=50;t=30`, of which the scarcest counts, and the policy `"default";q=100;w=60` of the same name. */
function readStructured(text: string | undefined, policy = ''): ServerBudget | undefined {
  const found = (text ?? '').split(',').flatMap((entry) => {
    const remaining = whole(/;\s*r=(\d+)/.exec(entry)?.[1])
    if (remaining === undefined) return []
    const name = entry.split(';', 1)[0]?.trim()
    const own = policy.split(',').find((one) => one.split(';', 1)[0]?.trim() === name)
    const limit = whole(/;\s*q=(\d+)/.exec(own ?? '')?.[1])
    const seconds = number(/;\s*t=(\d+)/.exec(entry)?.[1])
    return [
      {
        remaining,
        ...(limit !== undefined && { limit }),
        ...(seconds !== undefined && { resetMs: seconds * 1_000 }),
      },
    ]
  })
  return found.toSorted((a, b) => a.remaining - b.remaining)[0]
}

function untilMs(reset: number, unitMs: number, nowMs: number): number {
  if (reset < leastInstant) return reset * unitMs
  const instantMs = reset > leastInstant * 1_000 ? reset : reset * 1_000
  return Math.max(0, instantMs - nowMs)
}

/** Some send lists of several windows, `100, 100;w=60`: the first is the one that counts now. */
function number(text: string | undefined): number | undefined {
  const digits = /^\d+(\.\d+)?/.exec(text ?? '')?.[0]
  return digits === undefined ? undefined : Number(digits)
}

function whole(text: string | undefined): number | undefined {
  const value = number(text)
  return value === undefined ? undefined : Math.floor(value)
}
