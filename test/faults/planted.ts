import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Aim } from './aims.ts'

/** A mistake in the product, put back on purpose: the harness must see it. */
type PlantedBug = {
  name: string
  changes: readonly { file: string; find: string; replace: string }[]
  /** The schedules that aim at it; `backup` are those that restore one, `random` those that aim at nothing. */
  seenBy: Aim | 'backup' | 'random'
}

const payments = (name: string) => `src/payments/${name}.ts`

const plantedBugs: readonly PlantedBug[] = [
  {
    name: 'a new key for every call of a charge',
    changes: [
      {
        file: payments('resolve-creation'),
        find: 'deps.provider.orders.create(access.token, order.id, ',
        replace: 'deps.provider.orders.create(access.token, crypto.randomUUID(), ',
      },
    ],
    seenBy: 'random',
  },
  {
    name: 'a new key for every call of a refund',
    changes: [
      {
        file: payments('send-refund'),
        find: 'deps.provider.orders.refund(access.token, mpOrderId, operation.id, ',
        replace: 'deps.provider.orders.refund(access.token, mpOrderId, crypto.randomUUID(), ',
      },
    ],
    seenBy: 'keyed refunds of one amount',
  },
  {
    name: '1: a refund with a key takes up an equal one of another key',
    changes: [
      {
        file: payments('refund-order'),
        find: 'if (identity.isBare && isEqual && !isSentNow) {',
        replace: 'if (isEqual && !isSentNow) {',
      },
    ],
    seenBy: 'keyed refunds of one amount',
  },
  {
    name: '2: a refund that fails later gives nothing back',
    changes: [
      {
        file: payments('apply-evidence'),
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
        file: payments('outcome'),
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
        file: payments('resolve-creation'),
        find: 'if (isUnsent && claim.unansweredAt === null && mayEnd(error, options)) {',
        replace: 'if (isUnsent && mayEnd(error, options)) {',
      },
    ],
    seenBy: 'an attempt that arrives late',
  },
  {
    name: '3: a 4xx without a code of the provider proves that nothing was made',
    changes: [
      {
        file: 'src/provider/judge-refusal.ts',
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
        file: payments('apply-evidence'),
        find: "if (order.creation === 'refused') return reopen(trx, order, evidence, source, now)",
        replace:
          "if (order.creation === 'refused') return { order, changed: false, shown: evidence.status }",
      },
    ],
    seenBy: 'an attempt that arrives after all hope',
  },
  {
    name: '4: the claim is not proven before the first byte',
    changes: [
      {
        file: payments('send-alone'),
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
        file: payments('send-alone'),
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
        file: 'src/domain/provider-key.ts',
        find: '.digest().subarray(0, 16)',
        replace: '.update(String(Math.random())).digest().subarray(0, 16)',
      },
    ],
    seenBy: 'backup',
  },
  {
    name: '6: an error after the call of a refund says how the order stood before',
    changes: [
      {
        file: payments('refund-order'),
        find: 'return withMoneyOutcome(undecided(order), async () => {',
        replace: 'return withMoneyOutcome(standing(order), async () => {',
      },
    ],
    seenBy: 'a database that goes away',
  },
  {
    name: '7: a charge whose commit was not answered counts as not begun',
    changes: [
      {
        file: payments('create-order'),
        find: "{ outcome: 'unknown', retrySafe: identity.repeatable },\n    () => writeIntent(",
        replace: "{ outcome: 'not_charged', retrySafe: true },\n    () => writeIntent(",
      },
    ],
    seenBy: 'a database that goes away',
  },
  {
    name: '8: what is given up is sent again',
    changes: [
      {
        file: payments('resolve-creation'),
        find: 'if (order.cancel_requested_at !== null || ',
        replace: 'if (',
      },
      {
        file: 'src/repositories/senders.ts',
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
        file: payments('send-refund'),
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
        file: payments('terminal-slot'),
        find: "return shown === 'created' || shown === 'at_terminal' ? current : undefined",
        replace: "return isOpenHere(current) || shown === 'created' ? current : undefined",
      },
      {
        file: payments('terminal-slot'),
        find: '/** An order that nobody waits for: past',
        replace:
          "const isOpenHere = (order: OrderRow) => ['created', 'at_terminal'].includes(order.status)\n\n/** An order that nobody waits for: past",
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
        file: 'src/repositories/orders.ts',
        find: "eb.or([eb('status', '=', 'created'), eb('cancel_requested_at', 'is', null)]),",
        replace: '',
      },
    ],
    seenBy: 'a terminal that must be looked at',
  },
]

export type PlantedResult = { name: string; seenBy: string; isSeen: boolean; line: string }

const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Puts each of the bugs into a copy of the source and runs schedules there until one fails, `schedules` at most. Throws when
 * a bug does not fit the source any more.
 */
export async function runPlanted(
  schedules: number,
  report: (result: PlantedResult) => void,
  only?: string,
): Promise<PlantedResult[]> {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-planted-'))
  const results: PlantedResult[] = []
  try {
    for (const name of ['src', 'test', 'migrations', 'public', 'docs', 'package.json']) {
      await cp(join(root, name), join(folder, name), { recursive: true })
    }
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
    for (const bug of plantedBugs) {
      if (only !== undefined && !bug.name.startsWith(only)) continue
      await plant(folder, bug)
      const planted = await runFaults(folder, bug.seenBy, ['--until-failed'], schedules)
      for (const { file } of bug.changes) await cp(join(root, file), join(folder, file))
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
    await rm(folder, { recursive: true, force: true })
  }
  return results
}

async function plant(folder: string, { name, changes }: PlantedBug): Promise<void> {
  for (const { file, find, replace } of changes) {
    const path = join(folder, file)
    const source = await readFile(path, 'utf8')
    if (source.split(find).length !== 2) {
      throw new Error(`the planted bug "${name}" does not fit ${file} any more: ${find}`)
    }
    await writeFile(
      path,
      source.replace(find, () => replace),
    )
  }
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
