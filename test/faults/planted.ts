import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { type Change, copySource } from '../support/source-copy.ts'
import type { Aim } from './aims.ts'

/** A mistake in the product, put back on purpose: the harness must see it. */
type PlantedBug = {
  name: string
  changes: readonly Change[]
  /** The schedules that aim at it; `backup` are those that restore one, `random` those that aim at nothing. */
  seenBy: Aim | 'backup' | 'random'
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
    seenBy: 'random',
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
    seenBy: 'keyed refunds of one amount',
  },
  {
    name: '1: a refund with a key takes up an equal one of another key',
    changes: [
      {
        file: payments('orders/refund'),
        find: 'if (isBare && isEqual && !isSentNow) return open',
        replace: 'if (isEqual && !isSentNow) return open',
      },
    ],
    seenBy: 'keyed refunds of one amount',
  },
  {
    name: '2: a refund that fails later gives nothing back',
    changes: [
      {
        file: payments('orders/state-from-provider'),
        find: 'failedCents: failed.reduce((sum, { amountCents }) => sum + (amountCents ?? 0), 0),',
        replace: 'failedCents: 0,',
      },
    ],
    seenBy: 'refunds that are processing',
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
    seenBy: 'refunds that are processing',
  },
  {
    name: '3: a refusal counts also after an attempt without an answer',
    changes: [
      {
        file: payments('operations/run-operation'),
        find: 'if (lease.unansweredAt !== null) return false',
        replace: '',
      },
    ],
    seenBy: 'an attempt that arrives late',
  },
  {
    name: '3: a 4xx without a code of the provider proves that nothing was made',
    changes: [
      {
        file: 'src/provider/classify-refusal.ts',
        find: "if (code === null) return 'ambiguous'",
        replace: "if (code === null) return 'proof'",
      },
    ],
    seenBy: 'denied after the effect',
  },
  {
    name: '3: an order that shows up for a refused row is passed over',
    changes: [
      {
        file: payments('orders/state-from-provider'),
        find: "if (order.creation === 'refused') return reopen(order, evidence, now)",
        replace:
          "if (order.creation === 'refused') return { move: undefined, shown: evidence.status }",
      },
    ],
    seenBy: 'an attempt that arrives after all hope',
  },
  {
    name: '4: the claim is not proven before the first byte',
    changes: [
      {
        file: payments('operations/run-operation'),
        find: 'if (!(await beginAttempt(db, table, id, sender, begun))) return undefined',
        replace: 'await beginAttempt(db, table, id, sender, begun)',
      },
    ],
    seenBy: 'a process that stands still',
  },
  {
    name: '4: a claim that was proven counts for ever',
    changes: [
      {
        file: payments('operations/run-operation'),
        find: 'return () => performance.now() - askedAt < freshMs',
        replace: 'return () => askedAt >= 0',
      },
    ],
    seenBy: 'a process that stands still',
  },
  {
    name: '5: keys to the provider are drawn, not derived',
    changes: [
      {
        file: 'src/domain/provider-names.ts',
        find: "`, 'buffer')",
        replace: "`.concat(String(Math.random())), 'buffer')",
      },
    ],
    seenBy: 'backup',
  },
  {
    name: '6: an error after the call of a refund says how the order stood before',
    changes: [
      {
        file: payments('orders/refund'),
        find: 'asked.outcomeOnFailure = undecided(order)\n  const intent',
        replace: 'asked.outcomeOnFailure = standing(order)\n  const intent',
      },
      // The look before a refusal would see what was begun.
      {
        file: payments('orders/refund'),
        find: 'await denyRefund(deps, asked)',
        replace: 'undefined as OrderOperationRow | undefined',
      },
    ],
    seenBy: 'a database that goes away',
  },
  {
    name: '7: a charge whose commit was not answered counts as not begun',
    changes: [
      {
        file: payments('orders/charge'),
        find: 'sale.outcomeOnFailure = undecided(sale)\n      const intent',
        replace: 'sale.outcomeOnFailure = notMade\n      const intent',
      },
      // The look before a denial would see the intent.
      {
        file: payments('orders/charge'),
        find: 'await denyCharge(deps, sale, start.pos)',
        replace: '(undefined as OrderRow | undefined)',
      },
    ],
    seenBy: 'a database that goes away',
  },
  {
    name: '8: what is given up is sent again',
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
    seenBy: 'a cancel of what never arrived',
  },
  {
    name: '9: a total refund gives back what was known, not what was left',
    changes: [
      {
        file: payments('orders/send-refund'),
        find: 'const amountCents = refund?.amountCents ?? (operation.amount_cents as number)',
        replace: 'const amountCents = operation.amount_cents as number',
      },
    ],
    seenBy: 'money in the panel',
  },
  {
    name: '10: what the provider does not confirm holds the box',
    changes: [
      {
        file: payments('terminals/choose-terminal'),
        find: "return shown === 'created' || shown === 'at_terminal' ? current : undefined",
        replace: "return isOpenHere(current) || shown === 'created' ? current : undefined",
      },
      {
        file: payments('terminals/choose-terminal'),
        find: 'async function tryCancel(',
        replace:
          "const isOpenHere = (order: OrderRow) => ['created', 'at_terminal'].includes(order.status)\n\nasync function tryCancel(",
      },
    ],
    seenBy: 'evidence that no document describes',
  },
  {
    name: '12: each process goes by its own clock',
    changes: [
      {
        file: 'src/db/clock.ts',
        find: 'return new Date(latestMs)',
        replace: 'return new Date()',
      },
    ],
    seenBy: 'a process whose wall clock is wrong',
  },
  {
    name: '13: an order to be looked at at the terminal answers for the sale although it is given up',
    changes: [
      {
        file: 'src/repositories/orders/order-queries.ts',
        find: "eb.or([eb('status', '=', 'created'), eb('cancel_requested_at', 'is', null)]),",
        replace: '',
      },
    ],
    seenBy: 'a terminal that must be looked at',
  },
  {
    name: '14: an equal order of another application is taken for ours',
    changes: [
      {
        file: payments('orders/find-at-provider'),
        find: "return isNamed && isPoint && isOfItsTime ? 'ours' : 'unproven'",
        replace: "return isPoint && isOfItsTime ? 'ours' : 'unproven'",
      },
    ],
    seenBy: 'an equal order of another application',
  },
  {
    name: '15: an equal refund that was there before answers for ours',
    changes: [
      {
        file: payments('orders/match-refund'),
        find: 'const before = operation.refunds_before',
        replace: 'const before: readonly string[] | null = []',
      },
    ],
    seenBy: 'an equal refund of the panel',
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
    seenBy: 'a cancel at the terminal',
  },
  {
    name: '17: a payment that the provider works on counts as failed',
    changes: [
      {
        file: 'src/domain/order-state.ts',
        find: "['processing', { status: 'at_terminal',",
        replace: "['processing', { status: 'failed',",
      },
    ],
    seenBy: 'an order that the provider works on',
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
    seenBy: 'a charge-back',
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
    seenBy: 'a second payment of an order',
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
    seenBy: 'an amount that is not the order’s',
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
    seenBy: 'money after a decision',
  },
]

export type PlantedResult = { name: string; seenBy: string; isSeen: boolean; line: string }

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
      const takeBack = await copy.plant(bug.name, bug.changes)
      const planted = await runFaults(folder, bug.seenBy, ['--until-failed'], schedules)
      await takeBack()
      const seed = /^seed (\w+),/m.exec(planted.output)?.[1]
      // What fails without the bug too says nothing about it.
      const sound = seed
        ? await runFaults(folder, bug.seenBy, ['--seed', seed], schedules)
        : undefined
      const lines = planted.output.split('\n')
      const violation = lines.find((line) => line.startsWith('  ! ')) ?? lines.at(-1) ?? ''
      const result = {
        name: bug.name,
        seenBy: bug.seenBy,
        isSeen: planted.code !== 0 && sound?.code === 0,
        line: sound && sound.code !== 0 ? `seed ${seed} fails without it` : violation.trim(),
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
  seenBy: PlantedBug['seenBy'],
  more: readonly string[],
  schedules: number,
): Promise<{ code: number | null; output: string }> {
  const isKind = seenBy === 'random' || seenBy === 'backup'
  const which = isKind
    ? ['--schedules', String(schedules), '--kind', seenBy]
    : ['--aimed', String(schedules), '--only', seenBy]
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
