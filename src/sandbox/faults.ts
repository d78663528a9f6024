import { isRecord } from './problems.ts'

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
const refundFaults = ['refund_processing'] as const
/** Bodies of an error: the provider's envelope, JSON without a code, or a gateway's page. */
const answerForms = ['provider', 'bare', 'html'] as const
/** What the caller of a late call receives. */
const lateAnswers = ['cut', 'hang', 'status'] as const
const refundEnds = ['processed', 'failed'] as const

export type CallFault = (typeof callFaults)[number]
export type WebhookFault = (typeof webhookFaults)[number]

export type FaultRule = {
  path: string
  method: string | null
  /** Only calls with a token of this account, and webhooks about it; null for all accounts. */
  userId: number | null
  kind: CallFault | WebhookFault | (typeof refundFaults)[number]
  chance: number
  count: number | null
  /** The number of matching calls without a fault before the first one. */
  skip: number
  seed: number
  delayMs: number | null
  status: number
  retryAfter: number | null
  code: string | null
  form: (typeof answerForms)[number]
  answer: (typeof lateAnswers)[number]
  ends: (typeof refundEnds)[number]
}

export type Fault = Omit<FaultRule, 'kind'>
export type FaultBox = {
  replace: (rules: FaultRule[]) => void
  add: (rules: FaultRule[]) => void
  /** Ends the rules about this account. */
  endRulesOf: (userId: number) => void
  /** The rules, with how often each matched and fired. */
  list: () => object[]
  /** The faults of this call, in the order of the rules. Draws one random number for each matching rule. */
  onCall: (
    method: string,
    path: string,
    userId: number | null,
  ) => { kind: CallFault; rule: Fault }[]
  onWebhook: (action: string, userId: number | null) => { kind: WebhookFault; rule: Fault }[]
  /** The rule that makes the refund of this call `processing` first; undefined for none. */
  onRefund: (path: string, userId: number | null) => Fault | undefined
}

type Armed = {
  rule: FaultRule
  matches: (path: string) => boolean
  draw: () => number
  met: number
  fired: number
}

/** Stores the fault rules. The same rules and the same calls in the same order give the same faults. */
export function createFaultBox(): FaultBox {
  let armed: Armed[] = []

  function pick<K extends string>(
    kinds: readonly K[],
    method: string | null,
    path: string,
    userId: number | null,
  ) {
    const hits: { kind: K; rule: Fault }[] = []
    for (const entry of armed) {
      const { rule } = entry
      const kind = kinds.find((known) => known === rule.kind)
      if (kind === undefined || !entry.matches(path)) continue
      if (rule.method !== null && method !== null && rule.method !== method) continue
      if (rule.userId !== null && rule.userId !== userId) continue
      entry.met += 1
      if (entry.met <= rule.skip) continue
      if (entry.draw() >= rule.chance) continue
      if (rule.count !== null && entry.fired >= rule.count) continue
      entry.fired += 1
      hits.push({ kind, rule })
    }
    return hits
  }

  return {
    replace: (rules) => {
      armed = rules.map(arm)
    },
    add: (rules) => {
      armed.push(...rules.map(arm))
    },
    endRulesOf: (userId) => {
      armed = armed.filter(({ rule }) => rule.userId !== userId)
    },
    list: () => armed.map(({ rule, met, fired }) => ({ ...showRule(rule), met, fired })),
    onCall: (method, path, userId) => pick(callFaults, method, path, userId),
    onWebhook: (action, userId) => pick(webhookFaults, null, action, userId),
    onRefund: (path, userId) => pick(refundFaults, 'POST', path, userId)[0]?.rule,
  }
}

function arm(rule: FaultRule): Armed {
  const { path, seed } = rule
  return { rule, matches: pathMatcher(path), draw: seededRandom(seed), met: 0, fired: 0 }
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

function showRule(rule: FaultRule): object {
  const { delayMs, retryAfter, userId, ...rest } = rule
  return { ...rest, user_id: userId, delay_ms: delayMs, retry_after: retryAfter }
}

const statusKinds = new Map([
  ['429', 429],
  ['500', 500],
  ['502', 502],
  ['503', 503],
  ['5xx', 500],
  ['status', 500],
])
const aliases = new Map<string, CallFault>([
  ['hang', 'hang_before'],
  ['timeout', 'hang_before'],
])

/**
 * Reads the body of PUT /_sandbox/faults: a list of rules, or `{rules: […]}`.
 * Throws a plain Error with a message for the caller when a rule is wrong.
 */
export function readFaultRules(body: unknown): FaultRule[] {
  const list = isRecord(body) && 'rules' in body ? body.rules : body
  if (!Array.isArray(list)) throw new Error('send a list of rules, or {"rules": […]}')
  return list.map((item, index) => readRule(item, `rules[${index}]`))
}

const kinds = [...callFaults, ...webhookFaults, ...refundFaults]
const ruleKeys =
  'path method user_id kind chance count skip seed delay_ms status retry_after code form answer ends'.split(
    ' ',
  )

function readRule(item: unknown, where: string): FaultRule {
  if (!isRecord(item)) throw new Error(`${where} must be an object`)
  const unknown = Object.keys(item).find((key) => !ruleKeys.includes(key))
  if (unknown !== undefined) throw new Error(`${where}.${unknown} is not known`)
  const named = String(item.kind)
  const byStatus = statusKinds.get(named)
  const alias = aliases.get(named) ?? named
  const kind = byStatus !== undefined ? 'status' : kinds.find((known) => known === alias)
  if (kind === undefined) {
    const known = [...kinds, ...statusKinds.keys(), ...aliases.keys()]
    throw new Error(`${where}.kind must be one of ${[...new Set(known)].join(', ')}`)
  }
  const number = (key: string, fallback: number | null, low: number, high: number) => {
    const value = item[key] ?? fallback
    if (value === null) return null
    if (typeof value !== 'number' || !(value >= low && value <= high)) {
      throw new Error(`${where}.${key} must be a number from ${low} to ${high}`)
    }
    return value
  }
  const text = (key: string) => {
    const value = item[key] ?? null
    if (value !== null && typeof value !== 'string') {
      throw new Error(`${where}.${key} must be a string`)
    }
    return value
  }
  const choice = <K extends string>(key: string, choices: readonly [K, ...K[]]): K => {
    const value = item[key] ?? choices[0]
    const chosen = choices.find((each) => each === value)
    if (chosen === undefined)
      throw new Error(`${where}.${key} must be one of ${choices.join(', ')}`)
    return chosen
  }
  const path = text('path') ?? ''
  try {
    pathMatcher(path)
  } catch {
    throw new Error(`${where}.path is not a valid regular expression`)
  }
  return {
    path,
    method: text('method')?.toUpperCase() ?? null,
    userId: number('user_id', null, 1, Number.MAX_SAFE_INTEGER),
    kind,
    chance: number('chance', 1, 0, 1) ?? 1,
    count: number('count', null, 0, 1e9),
    skip: number('skip', 0, 0, 1e9) ?? 0,
    seed: number('seed', 1, 0, 2 ** 32) ?? 1,
    delayMs: number('delay_ms', null, 0, 7 * 86_400_000),
    // A late call was delayed by a gateway, which answered 504.
    status: number('status', byStatus ?? (kind === 'arrive_late' ? 504 : 500), 400, 599) ?? 500,
    retryAfter: number('retry_after', null, 0, 86_400),
    code: text('code'),
    form: choice('form', answerForms),
    answer: choice('answer', lateAnswers),
    ends: choice('ends', refundEnds),
  }
}
