import type { Trx } from '../../db/database.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-errors.ts'
import {
  confirmItem,
  findReadOf,
  lockItems,
  upsertHashes,
} from '../../repositories/flows/flow-items.ts'
import { findFlowState, hasPollBegunSince, nextRead } from '../../repositories/flows/flow-state.ts'
import { controlError } from '../control-errors.ts'
import { retryFailed } from '../deliver/retry-deliveries.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { splitKey } from '../item/item.ts'
import { createItemKeys } from '../item/key-set.ts'
import { watchFields } from '../poll/missing-fields.ts'
import type { PollDeps } from '../poll/poll-deps.ts'
import { refuseUnknownDestinations } from '../poll/poll-plan.ts'
import { type PassWriter, runPass } from '../poll/read-and-compare.ts'
import { type Item, type Source, SourceError } from '../types.ts'

/** Longest read of one item. */
const readWithinMs = 60_000
/** Repeated reads of one item, if other reads run at the same time. */
const mostReads = 5

/**
 * Reads one item from the source and queues a change, also while the flow is paused. An unchanged item with a failed
 * delivery is sent again. An unreadable source is recorded as an error and thrown.
 */
export async function syncItem(
  deps: PollDeps,
  runtime: FlowRuntime,
  pk: string,
): Promise<{ found: boolean; changed: boolean; jobs: number }> {
  const { flow } = runtime
  const key = splitKey(pk, flow.item.key.length)
  if (!key) return { found: false, changed: false, jobs: 0 }
  for (let reads = 0; reads < mostReads; reads += 1) {
    const { db } = deps.database
    const since = { read: await findReadOf(db, flow.name, pk) }
    const read = await nextRead(db)
    const became = await readAndStore(deps, runtime, { pk, key, read, since }).catch(
      async (error) => {
        if (error instanceof SourceError) {
          const problem = { flow: flow.name, pk, why: error.why, at: deps.now() }
          await insertSourceProblem(deps.database.db, problem)
        }
        throw error
      },
    )
    if (became === 'not found') return { found: false, changed: false, jobs: 0 }
    if (became === 'changed') return { found: true, changed: true, jobs: flow.destinations.length }
    if (became === 'unchanged') {
      return { found: true, changed: false, jobs: await retryFailed(deps, { flow: flow.name, pk }) }
    }
  }
  throw controlError(
    'CONFLICT',
    { code: 'ITEM_POLLED_MEANWHILE' },
    { extra: { retryAfterSeconds: 1 } },
  )
}

/** `since`: the read that had stored the item before this one began. */
type One = {
  pk: string
  key: readonly string[]
  read: number
  since: { read: number | undefined }
}
type Became = 'changed' | 'unchanged' | 'overtaken' | 'not found'

/** The pass of a poll, over the records of one item. */
async function readAndStore(deps: PollDeps, runtime: FlowRuntime, one: One): Promise<Became> {
  const signal = AbortSignal.timeout(readWithinMs)
  const rows = await runtime.source.readItem({ key: one.key, signal })
  const source: Source = {
    ...runtime.source,
    async *scan() {
      yield rows
    },
  }
  return await deps.database.transaction(async (trx) => {
    const pass = {
      ...{ since: null, from: null, startedAt: deps.now(), signal },
      fields: watchFields(runtime, { record_fields: null, record_fields_form: null }),
      keys: createItemKeys(),
    }
    const writer = createItemWriter(deps, runtime, trx, one)
    await runPass({ ...runtime, source, cursor: undefined }, pass, writer)
    return writer.became()
  })
}

/**
 * Stores and queues the content of one item unless it is `overtaken`: a later poll may have read newer content and
 * seen no change in it, or another read has stored the item while the source answered this one.
 */
function createItemWriter(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  { pk, read, since }: One,
): PassWriter & { became(): Became } {
  const { name } = runtime.flow
  let became: Became = 'not found'
  const store = async ({ hash, value }: Item, isForced: boolean): Promise<Became> => {
    if (await hasPollBegunSince(trx, name, read)) return 'overtaken'
    await refuseUnknownDestinations(deps, runtime, await findFlowState(trx, name))
    const at = deps.now()
    const { ours, same } = await upsertHashes(trx, name, [{ pk, hash }], { read, at, since })
    if (same.has(pk)) return 'unchanged'
    if (!ours.has(pk)) return 'overtaken'
    await deps.enqueue(trx, runtime, [{ pk, kind: 'upsert', hash, value, change: read, isForced }])
    return 'changed'
  }
  return {
    receive: (batches) => batches,
    warn: () => undefined,
    async hashesOf() {
      const stored = await lockItems(trx, name, [pk])
      return new Map([...stored].map(([key, { hash }]) => [key, hash]))
    },
    async take({ items, problems, changes }) {
      const problem = problems.find(({ isDuplicate }) => !isDuplicate)
      if (problem) throw new SourceError(problem.why)
      const change = changes.find(({ item }) => item.pk === pk)
      if (change) became = await store(change.item, change.kind === 'new')
      else if (items.some((item) => item.pk === pk)) {
        await confirmItem(trx, name, pk, read)
        became = 'unchanged'
      }
    },
    became: () => became,
  }
}
