import { isDeepStrictEqual } from 'node:util'
import type { Db, Trx } from '../../db/database.ts'
import {
  type ApprovalRow,
  endApprovals,
  listApprovals,
} from '../../repositories/flows/approvals.ts'
import { countItems, listPksAfter } from '../../repositories/flows/flow-items.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-problems.ts'
import {
  type FlowStateRow,
  holdsLease,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import {
  clearHeldDrift,
  findHeldChanges,
  findHeldDrift,
  forgetHeldChanges,
  type HeldDriftRow,
  keepHeldChanges,
  writeHeldDrift,
} from '../../repositories/flows/schema-changes.ts'
import type { Flow } from '../definition/schema.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { usedFields } from '../mapping/used-fields.ts'
import { isPaymentsSource } from '../sources/index.ts'
import type { Item, SourceRow } from '../types.ts'
import type { FoundChange } from './compare.ts'
import { LeaseLostError, type PollDeps, type PollLease } from './poll-deps.ts'
import {
  createShapeWatch,
  type Finding,
  isAmong,
  reasonOf,
  type Shape,
  type ShapeFinding,
  type ShapeWatch,
} from './shape.ts'

/** What a poll would write of one batch of records; items that did not change only where a destination is to get all. */
export type PollBatch = {
  items: readonly Item[]
  changes: readonly FoundChange[]
  /** Of keys that came more than once: the same read may have stored an earlier record of them. */
  isLater?: boolean
}

/** Ends a poll whose source does not look as it did. Nothing that was found may be sent. */
export class DriftFound extends Error {
  readonly findings: readonly Finding[]
  /** Whether it was found beside what somebody had let through when the poll began. */
  readonly isBesideApproved: boolean

  constructor(findings: readonly Finding[], isBesideApproved: boolean) {
    super(reasonOf(findings))
    this.name = 'DriftFound'
    this.findings = findings
    this.isBesideApproved = isBesideApproved
  }
}

/** What is held of a flow, and what of it somebody has let through. */
export type Held = {
  row: HeldDriftRow | undefined
  approvals: readonly ApprovalRow[]
  isApproved: boolean
  /** Empty until they are approved. */
  approved: readonly Finding[]
}

export type DriftWatch = {
  /** Throws DriftFound when these records do not look as they did. */
  look(rows: readonly SourceRow[]): void
  /** The batches that may be written by now: none as long as it is open whether too many items changed. */
  admit(batch: PollBatch): Promise<readonly PollBatch[]>
  /**
   * After the last record that there was: the batches that were kept back. `again`: there were too many to be kept, so the source
   * is to be read once more. `cut`: there are more than could be read, so nobody knows yet how many items changed. Throws
   * DriftFound when too many did.
   */
  end(isCut: boolean): Promise<readonly PollBatch[] | 'again' | 'cut'>
  /** In the transaction that ends the poll: what was held goes on, and what was read is how records look. */
  settle(trx: Trx): Promise<void>
}

/** What is kept in memory until it is known whether it is too much. */
const keptItems = 1_000
const keptCharacters = 8 * 1_048_576

/**
 * Watches one poll for what does not look as it did: a field that is gone, values of another type, too many changes at once.
 * Where a share of changed items holds a flow, nothing of a poll is written before its last record was read.
 */
export async function watchDrift(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  state: FlowStateRow,
): Promise<DriftWatch> {
  const { flow } = runtime
  const { db } = deps.database
  const held = await readHeld(db, flow.name)
  const shape = watchShape(runtime, state)
  const rule = flow.drift.changed
  const count = rule && createCount(db, flow.name, rule, held)
  let kept: PollBatch[] = []
  let keptSize = { items: 0, characters: 0 }
  // Where nothing is stored yet all is new, and a first import is as fast as it was.
  const isFirst = rule && (await listPksAfter(db, flow.name, undefined, 1)).length === 0
  let mode: 'keeping' | 'counting' | 'writing' = rule && !isFirst ? 'keeping' : 'writing'
  /** All that changed, while it may have to be held. */
  let pending: { pk: string; hash: string }[] = []
  let isStaged = false
  /** How records of this poll do not look as they did, let through or not. */
  const found: ShapeFinding[] = []
  /** Not let through; how many items changed with it is to be shown too. */
  let isNoted = false
  /** What could not be read may look otherwise still. */
  let wasCut = false

  /** Without its key no item can be compared, and what is written at once can no longer be held. */
  const mayCountOn = () => {
    const isOfKey = found.some(({ field }) => flow.item.key.includes(field))
    const isShown = held.row && !held.isApproved && isShownIn(held.row, found)
    return count !== undefined && mode !== 'writing' && !isOfKey && !isShown
  }

  const stage = (changes: readonly { pk: string; hash: string }[]) =>
    deps.database.transaction(async (trx) => {
      if (!(await holdsLease(trx, { ...lease, now: deps.now() }))) throw new LeaseLostError()
      if (!isStaged) await forgetHeldChanges(trx, flow.name)
      await keepHeldChanges(trx, flow.name, changes)
      isStaged = true
    })

  const keep = (batch: PollBatch) => {
    const items = batch.items.length > 0 ? batch.items : batch.changes.map(({ item }) => item)
    const characters = items.reduce((sum, one) => sum + JSON.stringify(one.value).length, 0)
    keptSize = {
      items: keptSize.items + items.length,
      characters: keptSize.characters + characters,
    }
    if (keptSize.items > keptItems || keptSize.characters > keptCharacters) {
      mode = 'counting'
      kept = []
    } else kept.push(batch)
  }

  return {
    look(rows) {
      found.push(...(shape?.look(rows) ?? []).filter((one) => !isAmong(one, found)))
      if (found.every((one) => isAmong(one, held.approved))) return
      if (!mayCountOn()) throw new DriftFound(found, held.isApproved)
      isNoted = true
    },
    async admit(batch) {
      if (!count || !rule) return [batch]
      const changes = countedOf(batch.changes)
      const finding = await count.add(changes)
      // What is held already is shown as it was found then.
      const isShown = held.row?.findings.some((one) => (one as Finding).kind === 'changed')
      if (finding && (mode === 'writing' || (isShown && !held.isApproved))) {
        throw new DriftFound([...found, finding], held.isApproved)
      }
      if (mode === 'writing') return [batch]
      pending.push(...changes)
      if (finding) {
        kept = []
        mode = 'counting'
        if (pending.length > 0) await stage(pending)
        pending = []
      } else if (mode === 'keeping') keep(batch)
      return []
    },
    async end(isCut) {
      wasCut = isCut
      const finding = count?.finding()
      if (finding) throw new DriftFound([...found, finding], held.isApproved)
      if (isNoted) throw new DriftFound(found, held.isApproved)
      if (isCut && mode !== 'writing') return 'cut'
      if (mode === 'counting') {
        mode = 'writing'
        pending = []
        count?.restart()
        return 'again'
      }
      const batches = kept
      kept = []
      return batches
    },
    async settle(trx) {
      const learned = shape?.learned()
      // The database has its fields in another order.
      if (learned && !isDeepStrictEqual(learned, state.shape)) {
        await updateFlowState(trx, flow.name, { shape: learned, shape_form: runtime.itemForm })
      }
      if (held.row === undefined || wasCut) return
      await clearHeldDrift(trx, flow.name)
      await endApprovals(trx, flow.name, held.approvals)
      deps.log.info({ flow: flow.name, approved: held.isApproved }, 'a flow that was held goes on')
    },
  }
}

/** What counts for a share of changed items: not what is new, nor what is only learned. */
export function countedOf(changes: readonly FoundChange[]): { pk: string; hash: string }[] {
  return changes
    .filter(({ kind, isOwed }) => kind === 'changed' && isOwed)
    .map(({ item: { pk, hash } }) => ({ pk, hash }))
}

/** Counts the changed items that nobody has let through, and says when they are too many. */
export function createCount(
  db: Db,
  flow: string,
  { minItems, maxPercent }: NonNullable<Flow['drift']['changed']>,
  held: Pick<Held, 'isApproved'>,
) {
  let changed = 0
  let isNew = 0
  let known: number | undefined

  const finding = (): Finding | undefined => {
    if (known === undefined || isNew <= minItems || isNew * 100 <= known * maxPercent) return
    return { kind: 'changed', items: changed, known, maxPercent }
  }

  return {
    finding,
    restart() {
      changed = 0
      isNew = 0
    },
    async add(changes: readonly { pk: string; hash: string }[]): Promise<Finding | undefined> {
      changed += changes.length
      const letThrough = held.isApproved
        ? await findHeldChanges(
            db,
            flow,
            changes.map(({ pk }) => pk),
          )
        : undefined
      isNew += changes.filter(({ pk, hash }) => letThrough?.get(pk) !== hash).length
      if (isNew > minItems) known ??= await countItems(db, flow)
      return finding()
    },
  }
}

/** What is held of a flow. */
export async function readHeld(db: Db | Trx, flow: string): Promise<Held> {
  const row = await findHeldDrift(db, flow)
  if (!row) return { row, approvals: [], isApproved: false, approved: [] }
  const approvals = await listApprovals(db, flow, 'drift')
  // An approval is of what was shown: of what was found since there is none.
  const isApproved = approvals.some((one) => one.read_number >= row.read_number)
  // Written by `holdFlow`.
  return { row, approvals, isApproved, approved: isApproved ? (row.findings as Finding[]) : [] }
}

/** Compares records with how those of the flow have looked; undefined where nobody asks. */
export function watchShape(
  { flow, usedFields: used, cursor, itemForm }: FlowRuntime,
  state: Pick<FlowStateRow, 'shape' | 'shape_form'>,
): ShapeWatch | undefined {
  const { source, item } = flow
  const { columns, types } = flow.drift
  if (isPaymentsSource(source) || (columns === 'ignore' && types === 'ignore')) return undefined
  const ofFilter =
    item.filter === undefined ? [] : usedFields([{ filter: item.filter, fields: {} }])
  const fields = used &&
    ofFilter && [...new Set([...used, ...ofFilter, ...item.key, ...(cursor ? [cursor.field] : [])])]
  // Written by `settle`. What was read otherwise, or made into other records, looked otherwise.
  const known = state.shape_form === itemForm ? (state.shape as Shape | null) : null
  return createShapeWatch(known ?? undefined, {
    fields,
    isTable: source.type === 'sql',
    isSheet: 'format' in source && !['json', 'ndjson'].includes(source.format),
    columns,
    types,
  })
}

/** In the transaction that ends a poll which has found a drift: the flow is held, or goes on being held. */
export async function holdFlow(
  deps: PollDeps,
  trx: Trx,
  flow: string,
  { findings, message: reason, isBesideApproved }: DriftFound,
  read: number,
): Promise<void> {
  const held = await readHeld(trx, flow)
  const at = deps.now()
  // What was let through while the poll ran is for the next one to find.
  if (held.row && !isBesideApproved && isShownIn(held.row, findings)) {
    await writeHeldDrift(trx, { ...held.row, held_at: at })
    return
  }
  await endApprovals(trx, flow, held.approvals)
  if (!findings.some(({ kind }) => kind === 'changed')) await forgetHeldChanges(trx, flow)
  await writeHeldDrift(trx, {
    ...{ flow, reason, findings, since: at, held_at: at, read_number: read },
  })
  await insertSourceProblem(trx, { flow, pk: '', error: `held: ${reason}`, at })
  deps.log.warn({ flow, reason }, 'a flow is held: its source does not look as it did')
}

/** Whether somebody who looks at what is held sees these findings. */
function isShownIn(row: HeldDriftRow, findings: readonly Finding[]): boolean {
  const shown = row.findings as Finding[]
  return findings.every((one) =>
    one.kind === 'changed' ? shown.some(({ kind }) => kind === 'changed') : isAmong(one, shown),
  )
}
