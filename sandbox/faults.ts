import { z } from 'zod'
import { badCall, field, numberIn, oneOf, readCall } from './control-body.ts'
import type { Context } from './sandbox-context.ts'
import { isRecord } from './validation-errors.ts'

/**
 * The effect of a rule on a call. `*_before`: the call has no effect. `*_after`: it has its effect, and the answer is
 * lost or replaced. `arrive_late`: the caller is answered at once as `answer` says, and the call takes effect
 * `delay_ms` later.
 */
export const callFaults = [
  'latency',
  'latency_after',
  'status',
  'status_after',
  'arrive_late',
  'drop_before',
  'drop_after',
  'reset',
  'torn_body',
  'hang_before',
  'hang_after',
] as const
export const webhookFaults = ['duplicate', 'late', 'reorder', 'missing', 'bad_signature'] as const

/** Refunds begin as `processing` and end as `ends` says, `delay_ms` later or by an action. */
export const refundFaults = ['refund_processing'] as const
/** Bodies of an error: the provider's envelope, JSON without a code, or a gateway's page. */
const answerForms = ['provider', 'bare', 'html'] as const
/** What the caller of a late call receives. */
const lateAnswers = ['cut', 'hang', 'status'] as const
const refundEnds = ['processed', 'failed'] as const

export type CallFault = (typeof callFaults)[number]
export type WebhookFault = (typeof webhookFaults)[number]

const kinds = [...callFaults, ...webhookFaults, ...refundFaults]
/** Other names of kinds, some with a status. */
const aliases = new Map<string, { kind: CallFault; status?: number }>([
  ['429', { kind: 'status', status: 429 }],
  ['500', { kind: 'status', status: 500 }],
  ['502', { kind: 'status', status: 502 }],
  ['503', { kind: 'status', status: 503 }],
  ['5xx', { kind: 'status' }],
  ['hang', { kind: 'hang_before' }],
  ['timeout', { kind: 'hang_before' }],
])

function kindOf(value: unknown) {
  const kind = kinds.find((known) => known === value)
  return aliases.get(String(value)) ?? (kind && { kind, status: undefined })
}

/** A field that may be absent or null. */
function orElse<T, F>(schema: z.ZodType<T>, fallback: F) {
  return schema.nullish().transform((value) => value ?? fallback)
}

const text = z.string('must be a string')
const number = numberIn(0, 1e9)

const FaultRule = z
  .strictObject(
    {
      kind: field(kindOf, `must be one of ${[...kinds, ...aliases.keys()].join(', ')}`),
      path: orElse(text.refine(isPath, 'is not a valid regular expression'), ''),
      method: orElse(text.toUpperCase(), null),
      /** Only calls with a token of this account, and webhooks about it; null for all accounts. */
      user_id: orElse(numberIn(1, Number.MAX_SAFE_INTEGER), null),
      chance: orElse(numberIn(0, 1), 1),
      count: orElse(number, null),
      /** The number of matching calls without a fault before the first one. */
      skip: orElse(number, 0),
      seed: orElse(numberIn(0, 2 ** 32), 1),
      delay_ms: orElse(numberIn(0, 7 * 86_400_000), null),
      status: orElse(numberIn(400, 599), null),
      retry_after: orElse(numberIn(0, 86_400), null),
      code: orElse(text, null),
      /** The number of the cause, in the errors of payments. */
      cause: orElse(numberIn(1, 99_999), null),
      form: orElse(oneOf(answerForms), answerForms[0]),
      answer: orElse(oneOf(lateAnswers), lateAnswers[0]),
      ends: orElse(oneOf(refundEnds), refundEnds[0]),
    },
    'must be an object',
  )
  .transform(({ kind: { kind, status: usual }, status, ...rule }) => {
    // A late call was delayed by a gateway, which answered 504.
    return { ...rule, kind, status: status ?? usual ?? (kind === 'arrive_late' ? 504 : 500) }
  })

export type FaultRule = z.output<typeof FaultRule>

/** A rule, with how often it matched and fired. */
export type ArmedRule = {
  rule: FaultRule
  matches: (path: string) => boolean
  draw: () => number
  met: number
  fired: number
}

/** Reads the body of PUT /_sandbox/faults: a list of rules, or `{rules: […]}`. Throws a control error. */
export function readFaultRules(body: unknown): ArmedRule[] {
  const list = isRecord(body) && 'rules' in body ? body.rules : body
  if (!Array.isArray(list)) throw badCall('send a list of rules, or {"rules": […]}')
  const { rules } = readCall(z.object({ rules: z.array(FaultRule) }), { rules: list })
  return rules.map((rule) => {
    const { path, seed } = rule
    return { rule, matches: pathMatcher(path), draw: seededRandom(seed), met: 0, fired: 0 }
  })
}

export function showFaults(ctx: Context) {
  return { rules: ctx.faults.map(({ rule, met, fired }) => ({ ...rule, met, fired })) }
}

/**
 * The faults of these kinds in a call or webhook, in the order of the rules. Draws one random number for each matching
 * rule, so the same rules and the same calls in the same order give the same faults.
 */
export function faultsOf<K extends FaultRule['kind']>(
  ctx: Context,
  kinds: readonly K[],
  { method, path, userId }: { method: string | null; path: string; userId: number | null },
): { kind: K; rule: FaultRule }[] {
  const hits: { kind: K; rule: FaultRule }[] = []
  for (const entry of ctx.faults) {
    const { rule } = entry
    const kind = kinds.find((known) => known === rule.kind)
    if (kind === undefined || !entry.matches(path)) continue
    if (rule.method !== null && method !== null && rule.method !== method) continue
    if (rule.user_id !== null && rule.user_id !== userId) continue
    entry.met += 1
    if (entry.met <= rule.skip) continue
    if (entry.draw() >= rule.chance) continue
    if (rule.count !== null && entry.fired >= rule.count) continue
    entry.fired += 1
    hits.push({ kind, rule })
  }
  return hits
}

/** A path with characters of a pattern is a regular expression; another path is a prefix. */
function pathMatcher(path: string): (candidate: string) => boolean {
  if (!/[\^$*+?()[\]{}|\\]/.test(path)) return (candidate) => candidate.startsWith(path)
  const pattern = new RegExp(path)
  return (candidate) => pattern.test(candidate)
}

/** mulberry32: short, and the same on every machine. */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function isPath(path: string): boolean {
  try {
    pathMatcher(path)
    return true
  } catch {
    return false
  }
}
