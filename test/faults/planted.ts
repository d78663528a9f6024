import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { type Change, copySource } from '../support/source-copy.ts'
import type { ScenarioName } from './scenarios.ts'

/** A bug that is put into a copy of the product on purpose: schedules must detect it. */
type PlantedBug = {
  name: string
  changes: readonly Change[]
  /** The scenario that detects it; `backup` are the schedules that restore one, `random` those without a scenario. */
  detectedBy: ScenarioName | 'backup' | 'random'
}

const payments = (name: string) => `src/payments/${name}.ts`

export const plantedBugs: readonly PlantedBug[] = [
  {
    name: 'a new key for every call of a charge',
    changes: [
      {
        file: payments('orders/send-charge'),
        find: 'orders.create(token, order.id, ',
        replace: 'orders.create(token, crypto.randomUUID(), ',
      },
    ],
    detectedBy: 'random',
  },
  {
    name: 'a new key for every call of a refund',
    changes: [
      {
        file: payments('orders/send-refund'),
        find: 'order.mp_order_id as string, known.id, part',
        replace: 'order.mp_order_id as string, crypto.randomUUID(), part',
      },
    ],
    detectedBy: 'keyed refunds of one amount',
  },
  {
    name: '1: a refund with a key continues an equal one of another key',
    changes: [
      {
        file: payments('orders/refund'),
        find: 'if (isBare && isEqual && !isSentNow) return open',
        replace: 'if (isEqual && !isSentNow) return open',
      },
    ],
    detectedBy: 'keyed refunds of one amount',
  },
  {
    name: '2: the amount of a refund that fails later stays refunded',
    changes: [
      {
        file: payments('orders/state-from-provider'),
        find: 'failedCents: failed.reduce((sum, { amountCents }) => sum + (amountCents ?? 0), 0),',
        replace: 'failedCents: 0,',
      },
    ],
    detectedBy: 'refunds that are processing',
  },
  {
    name: '2: a refund in processing counts as made',
    changes: [
      {
        file: 'src/errors/money-outcome.ts',
        find: 'return order.refund_open || order.refunds.some(({ status }) => isPendingRefund(status))',
        replace: 'return order.refund_open',
      },
    ],
    detectedBy: 'refunds that are processing',
  },
  {
    name: '3: a refusal counts also after an attempt without an answer',
    changes: [
      {
        file: payments('operations/runner'),
        find: 'if (lease.unansweredAt !== null) return false',
        replace: '',
      },
    ],
    detectedBy: 'an attempt that arrives late',
  },
  {
    name: '3: a 4xx without a code of the provider proves that nothing was made',
    changes: [
      {
        file: 'src/provider/classify-refusal.ts',
        find: "if (proofs.length === 0) return 'ambiguous'",
        replace: "if (proofs.length === 0) return code === null ? 'proof' : 'ambiguous'",
      },
    ],
    detectedBy: 'denied after the effect',
  },
  {
    name: '3: an order that shows up for a refused row is ignored',
    changes: [
      {
        file: payments('orders/state-from-provider'),
        find: "if (order.creation === 'refused') return reopen(order, evidence, now)",
        replace:
          "if (order.creation === 'refused') return { move: undefined, shown: evidence.status }",
      },
    ],
    detectedBy: 'an attempt that arrives too late',
  },
  {
    name: '4: the lease is not checked before the first byte',
    changes: [
      {
        file: payments('operations/runner'),
        find: 'if (!(await beginAttempt(db, table, id, sender, begun))) return undefined',
        replace: 'await beginAttempt(db, table, id, sender, begun)',
      },
    ],
    detectedBy: 'a request that stalls',
  },
  {
    name: '4: a lease that was checked once counts without limit',
    changes: [
      {
        file: payments('operations/runner'),
        find: 'return () => performance.now() - askedAt < freshMs',
        replace: 'return () => askedAt >= 0',
      },
    ],
    detectedBy: 'a request that stalls',
  },
  {
    name: '5: idempotency keys of refunds are random, not derived',
    changes: [
      {
        file: 'src/domain/provider-names.ts',
        find: "`, 'buffer')",
        replace: "`.concat(String(Math.random())), 'buffer')",
      },
    ],
    detectedBy: 'backup',
  },
  {
    name: '6: an error after the call of a refund says how the order stood before',
    changes: [
      {
        file: payments('orders/refund'),
        find: 'asked.outcomeOnFailure = undecided(order)\n  const intent',
        replace: 'asked.outcomeOnFailure = standing(order)\n  const intent',
      },
      // The read before a refusal would find the begun refund.
      {
        file: payments('orders/refund'),
        find: 'await denyRefund(deps, asked)',
        replace: 'undefined as OrderOperationRow | undefined',
      },
    ],
    detectedBy: 'a request that loses its database',
  },
  {
    name: '7: a charge whose commit was not answered counts as not begun',
    changes: [
      {
        file: payments('orders/charge'),
        find: 'sale.outcomeOnFailure = undecided(sale)\n      const intent',
        replace: 'sale.outcomeOnFailure = notMade\n      const intent',
      },
      // The read before `not_charged` would find the intent.
      {
        file: payments('orders/charge'),
        find: 'await denyCharge(deps, sale, start.pos)',
        replace: '(undefined as OrderRow | undefined)',
      },
    ],
    detectedBy: 'a request that loses its database',
  },
  {
    name: '8: a canceled charge is sent again',
    changes: [
      {
        file: payments('orders/send-charge'),
        find: 'if (order.cancel_requested_at !== null || ',
        replace: 'if (',
      },
      {
        file: 'src/repositories/operations/send-leases.ts',
        find: 'orders: sql`cancel_requested_at is null`',
        replace: 'orders: sql`true`',
      },
    ],
    detectedBy: 'a cancel of what never arrived',
  },
  {
    name: '9: a total refund returns the known rest, not the rest at the provider',
    changes: [
      {
        file: payments('orders/send-refund'),
        find: 'const amountCents = refund?.amountCents ?? (operation.amount_cents as number)',
        replace: 'const amountCents = operation.amount_cents as number',
      },
    ],
    detectedBy: 'money in the panel',
  },
  {
    name: '10: an order that the provider does not confirm blocks the box',
    changes: [
      {
        file: payments('terminals/choose-terminal'),
        find: 'return shown && holdsTerminal(shown) ? current : undefined',
        replace: "return isOpenHere(current) || shown === 'created' ? current : undefined",
      },
      {
        file: payments('terminals/choose-terminal'),
        find: 'async function tryCancel(',
        replace:
          "const isOpenHere = (order: OrderRow) => ['created', 'at_terminal'].includes(order.status)\n\nasync function tryCancel(",
      },
    ],
    detectedBy: 'evidence that no document describes',
  },
  {
    name: '12: each process uses its own clock',
    changes: [
      {
        file: 'src/db/clock.ts',
        find: 'return new Date(latestMs)',
        replace: 'return new Date()',
      },
    ],
    detectedBy: 'a process whose wall clock is wrong',
  },
  {
    name: '13: a canceled order that needs a check at the terminal blocks a new charge of the sale',
    changes: [
      {
        file: 'src/repositories/orders/order-queries.ts',
        find: "eb.or([eb('status', '=', 'created'), eb('cancel_requested_at', 'is', null)]),",
        replace: '',
      },
    ],
    detectedBy: 'a terminal that needs a check',
  },
  {
    name: '14: an equal order of another application counts as ours',
    changes: [
      {
        file: payments('orders/find-at-provider'),
        find: "return isNamed && isPoint && isOfItsTime ? 'ours' : 'unproven'",
        replace: "return isPoint && isOfItsTime ? 'ours' : 'unproven'",
      },
    ],
    detectedBy: 'an equal order of another application',
  },
  {
    name: '15: an equal refund from before counts as ours',
    changes: [
      {
        file: payments('orders/match-refund'),
        find: 'const before = operation.refunds_before',
        replace: 'const before: readonly string[] | null = []',
      },
    ],
    detectedBy: 'an equal refund of the panel',
  },
  {
    name: '16: a cancel that is only requested counts as canceled',
    changes: [
      {
        file: 'src/provider/order-payloads.ts',
        find: 'status: deriveStatus(order, paidCents, refundedCents, hasOthers),',
        replace:
          "status: detailOf(order) === cancelRequested ? 'canceled' : deriveStatus(order, paidCents, refundedCents, hasOthers),",
      },
    ],
    detectedBy: 'a cancel at the terminal',
  },
  {
    name: '17: a payment that the provider processes counts as failed',
    changes: [
      {
        file: 'src/domain/order-state.ts',
        find: "['processing', { status: 'at_terminal',",
        replace: "['processing', { status: 'failed',",
      },
    ],
    detectedBy: 'a payment that the provider processes',
  },
  {
    name: '18: a charge-back counts as a refund',
    changes: [
      {
        file: 'src/domain/order-state.ts',
        find: "[chargedBack, { status: 'processed',",
        replace: "[chargedBack, { status: 'refunded',",
      },
    ],
    detectedBy: 'a charge-back',
  },
  {
    name: '19: a second payment counts as money of the order',
    changes: [
      {
        file: 'src/domain/money.ts',
        find: 'if (isSurplus) return { ...payment, isSurplus: true as const }',
        replace: '',
      },
    ],
    detectedBy: 'a second payment of an order',
  },
  {
    name: '20: the interest of instalments counts as money of the shop',
    changes: [
      {
        file: 'src/domain/money.ts',
        find: 'return hasInterest ? ofShop : undefined',
        replace: 'return hasInterest ? (paidCents ?? undefined) : undefined',
      },
    ],
    detectedBy: 'an amount that is not the order’s',
  },
  {
    name: '21: money that comes after a decision asks for no decision',
    changes: [
      {
        file: 'src/domain/order-state.ts',
        find: "if (isKept && order.paid_after_close) return 'paid_late'",
        replace: '',
      },
    ],
    detectedBy: 'money after a decision',
  },
]

export type PlantedResult = { name: string; detectedBy: string; isDetected: boolean; line: string }

/**
 * Puts each of the bugs into a copy of the source and runs schedules there until one fails, `schedules` at most. Throws when
 * a bug does not fit the source any more.
 */
export async function runPlanted(
  schedules: number,
  report: (result: PlantedResult) => void,
  only?: string,
): Promise<PlantedResult[]> {
  const copy = await copySource()
  const { folder } = copy
  const results: PlantedResult[] = []
  try {
    for (const bug of plantedBugs) {
      if (only !== undefined && !bug.name.startsWith(only)) continue
      const restore = await copy.plant(bug.name, bug.changes)
      const planted = await runFaults(folder, bug.detectedBy, ['--until-failed'], schedules)
      await restore()
      const seed = /^seed (\w+),/m.exec(planted.output)?.[1]
      // A seed that fails without the bug, too, proves nothing.
      const withoutBug = seed
        ? await runFaults(folder, bug.detectedBy, ['--seed', seed], schedules)
        : undefined
      const lines = planted.output.split('\n')
      const violation = lines.find((line) => line.startsWith('  ! ')) ?? lines.at(-1) ?? ''
      const result = {
        name: bug.name,
        detectedBy: bug.detectedBy,
        isDetected: planted.code !== 0 && withoutBug?.code === 0,
        line:
          withoutBug && withoutBug.code !== 0 ? `seed ${seed} fails without it` : violation.trim(),
      }
      results.push(result)
      report(result)
    }
  } finally {
    await copy.remove()
  }
  return results
}

function runFaults(
  folder: string,
  detectedBy: PlantedBug['detectedBy'],
  more: readonly string[],
  schedules: number,
): Promise<{ code: number | null; output: string }> {
  const isKind = detectedBy === 'random' || detectedBy === 'backup'
  const which = isKind
    ? ['--schedules', String(schedules), '--kind', detectedBy]
    : ['--scenarios', String(schedules), '--only', detectedBy]
  const args = [join(folder, 'test/faults/main.ts'), ...which, ...more]
  const child = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => {
      output += chunk
    })
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output: output.trim() }))
  })
}
