import type { FaultRule } from '../support/money.ts'
import type { Draw } from './draw.ts'

export type ScopedRule = FaultRule & { user_id: number }

const calls = {
  creation: { path: '^/v1/orders$', method: 'POST', weight: 5 },
  reading: { path: '^/v1/orders/ORD', method: 'GET', weight: 3 },
  canceling: { path: '/cancel$', method: 'POST', weight: 2 },
  refunding: { path: '/refund$', method: 'POST', weight: 4 },
  searching: { path: '^/v1/orders$', method: 'GET', weight: 1 },
  terminals: { path: '^/terminals', method: 'GET', weight: 1 },
  writes: { path: '^/v1/', method: 'POST', weight: 2 },
  everything: { path: '/', method: undefined, weight: 1 },
} as const

/** What can happen to a call, and how often; hangs are rare since they take real time. */
const callKinds = {
  drop_before: 4,
  drop_after: 6,
  reset: 1,
  torn_body: 4,
  '500': 3,
  '502': 1,
  '503': 2,
  '429': 2,
  latency: 1,
  latency_after: 2,
  locked: 1,
  conflict: 1,
  hang_after: 0.12,
  hang_before: 0.05,
}

/** The faults of the provider for one account: in some calls, for a while or always, and in its webhooks. */
export function planFaults(draw: Draw, userId: number): ScopedRule[] {
  const rules: ScopedRule[] = []
  const count = Number(draw.weigh('rules', { '0': 1, '1': 4, '2': 3, '3': 2 }))
  for (let index = 0; index < count; index += 1) {
    const label = (name: string) => `rule ${index} ${name}`
    const names = Object.keys(calls) as (keyof typeof calls)[]
    const weights = Object.fromEntries(names.map((name) => [name, calls[name].weight]))
    const { path, method } = calls[draw.weigh(label('call'), weights) as keyof typeof calls]
    const kind = draw.weigh(label('kind'), callKinds)
    const isHang = kind.startsWith('hang')
    const isPermanent = !isHang && draw.maybe(label('for good'), 0.4)
    rules.push({
      user_id: userId,
      path,
      ...(method !== undefined && { method }),
      ...kindFields(kind, draw.int(label('time'), 1, 30)),
      chance: draw.pick(label('chance'), [0.3, 0.6, 1]),
      seed: draw.int(label('seed'), 1, 1e9),
      ...(!isPermanent && { count: isHang ? 1 : draw.int(label('count'), 1, 8) }),
    })
  }
  // Drawn apart from the other rules, so that older seeds keep their rules.
  if (draw.maybe('token refused', 0.35)) {
    rules.push({
      user_id: userId,
      path: '^/v1/',
      kind: 'status',
      status: 401,
      code: 'unauthorized',
      chance: draw.pick('token refused chance', [0.3, 0.6]),
      seed: draw.int('token refused seed', 1, 1e9),
    })
  }
  for (const kind of ['missing', 'duplicate', 'late', 'reorder']) {
    if (!draw.maybe(`webhooks ${kind}`, 0.35)) continue
    const chance = draw.pick(`webhooks ${kind} chance`, [0.4, 1])
    const seed = draw.int(`webhooks ${kind} seed`, 1, 1e9)
    rules.push({ user_id: userId, path: '', kind, chance, seed })
  }
  return rules
}

function kindFields(kind: string, timeMs: number): Omit<FaultRule, 'path'> {
  switch (kind) {
    case 'latency':
    case 'latency_after':
      return { kind, delay_ms: timeMs }
    case '429':
      return { kind, retry_after: 1 + (timeMs % 3) }
    case 'locked':
      return { kind: 'status', status: 423, code: 'resource_locked' }
    case 'conflict':
      return { kind: 'status', status: 409, code: 'conflict' }
    default:
      return { kind }
  }
}
