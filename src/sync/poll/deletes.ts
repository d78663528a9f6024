import type { Db } from '../../db/database.ts'
import {
  countItems,
  deleteHashes,
  listPksAfter,
  lockItemsChangedSince,
} from '../../repositories/flow-items.ts'
import { insertSourceProblem } from '../../repositories/flow-problems.ts'
import { holdsLease } from '../../repositories/flow-state.ts'
import type { Flow } from '../definition/schema.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { KeySet } from './key-set.ts'
import { LeaseLostError, type PollDeps, type PollLease } from './poll-deps.ts'

const pageSize = 1_000

/**
 * After a complete read: items that the source no longer has are deleted at the destinations, when the flow says so and
 * the guard sees no accident. A read with problems deletes nothing, since what could not be read did not vanish; nor is an
 * item deleted that somebody else has met since `readSince`, after the source had given what it had.
 * Answers how many deletes were queued.
 */
export async function sendDeletes(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  { seen, problems, readSince }: { seen: KeySet; problems: number; readSince: Date },
): Promise<number> {
  const { flow } = runtime
  if (flow.deletes.mode !== 'delete') return 0
  const vanished: string[] = []
  for await (const pks of vanishedItems(deps.database.db, flow.name, seen)) vanished.push(...pks)
  if (vanished.length === 0) return 0
  const refusal = refusalOf(flow.deletes.guard, {
    seen: seen.size,
    known: await countItems(deps.database.db, flow.name),
    vanished: vanished.length,
    problems,
  })
  if (refusal !== undefined) {
    deps.log.warn({ flow: flow.name, vanished: vanished.length }, 'deletes were held back')
    await insertSourceProblem(deps.database.db, {
      flow: flow.name,
      pk: '',
      error: refusal,
      at: deps.now(),
    })
    return 0
  }
  let deleted = 0
  for (let from = 0; from < vanished.length; from += pageSize) {
    const page = vanished.slice(from, from + pageSize)
    deleted += await deps.database.transaction(async (trx) => {
      if (!(await holdsLease(trx, { ...lease, now: deps.now() }))) throw new LeaseLostError()
      const newer = await lockItemsChangedSince(trx, flow.name, page, readSince)
      const pks = page.filter((pk) => !newer.has(pk))
      await deleteHashes(trx, flow.name, pks)
      await deps.enqueue(
        trx,
        runtime,
        pks.map((pk) => ({ pk, kind: 'delete', hash: 'deleted', value: runtime.keyValue(pk) })),
      )
      return pks.length
    })
  }
  return deleted
}

/** The keys of stored items that a complete read has not met, some at a time. */
export async function* vanishedItems(
  db: Db,
  flow: string,
  seen: Pick<KeySet, 'has'>,
): AsyncGenerator<string[]> {
  let after: string | undefined
  for (;;) {
    const pks = await listPksAfter(db, flow, after, pageSize)
    yield pks.filter((pk) => !seen.has(pk))
    after = pks.at(-1)
    if (pks.length < pageSize) return
  }
}

/**
 * Why the guard holds deletes back; undefined when it lets them through. `known` counts the stored items, those included
 * that this read found new.
 */
export function refusalOf(
  guard: Flow['deletes']['guard'],
  found: { seen: number; known: number; vanished: number; problems: number },
): string | undefined {
  const { seen, known, vanished, problems } = found
  if (problems > 0)
    return `${vanished} deletes held back: the source had records that could not be read`
  if (seen === 0 && guard.emptySource === 'refuse') {
    return `${vanished} deletes held back: the source is empty`
  }
  const percent = (vanished / known) * 100
  if (vanished > guard.minItems && percent > guard.maxPercent) {
    return `${vanished} deletes held back: ${percent.toFixed(1)} % of ${known} items vanished at once, more than ${guard.maxPercent} %`
  }
  return undefined
}
