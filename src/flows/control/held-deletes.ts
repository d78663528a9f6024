import type { Db } from '../../db/database.ts'
import { approve, listApprovals } from '../../repositories/flows/approvals.ts'
import { requestFullScan } from '../../repositories/flows/flow-state.ts'
import { findContents } from '../../repositories/flows/item-versions.ts'
import {
  countMissedSince,
  findHeldDeletes,
  findMissed,
  type HeldDeletesRow,
  listMissed,
} from '../../repositories/flows/missing-items.ts'
import { controlError } from '../control-errors.ts'
import type { ControlService, HeldDeletes } from './control-service-types.ts'
import { recorded, type SwitchDeps } from './pauses-and-limits.ts'

const keysShown = 100

/** Items that are missing at the source and not deleted yet, and why. */
export async function readHeldDeletes(
  db: Db,
  flow: string,
  scans: number,
): ReturnType<ControlService['heldDeletes']> {
  const held = await findHeldDeletes(db, flow)
  const [approval] = await listApprovals(db, flow, 'deletes')
  const pks = await listMissed(db, flow, undefined, keysShown)
  const contents = await findContents(db, flow, pks)
  return {
    scans,
    held: held ? heldOf(held) : null,
    missing: await countMissedSince(db, flow, Number.MAX_SAFE_INTEGER),
    pks,
    items: pks.map((pk) => ({ pk, name: nameOf(contents.get(pk)) })),
    approvedAt: approval?.approved_at ?? null,
  }
}

/** Fields that may name an item, in order of preference. */
const nameFields = [
  ...['nombre', 'name', 'título', 'titulo', 'title'],
  ...['descripción', 'descripcion', 'description', 'detalle', 'razon_social'],
]
const longestName = 200

/** The name of an item; null if its content is not kept or has no name. */
function nameOf(content: Record<string, unknown> | undefined): string | null {
  const fields = new Map(
    Object.entries(content ?? {}).map(([field, value]) => [field.toLowerCase(), value]),
  )
  const found = nameFields.map((field) => fields.get(field)).find((value) => isText(value))
  return typeof found === 'string' ? found.slice(0, longestName) : null
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.trim() !== ''
}

export function heldOf({ items, known, reason, why, since }: HeldDeletesRow): HeldDeletes {
  return { items, known, reason, why, since }
}

/**
 * Approves deletes that the guard stopped: of these items, which the last full scan missed, or of all that it
 * stopped. The next full scan sends them if the items are still missing; later losses need approval again. Returns
 * how many. Throws BAD_REQUEST if there is nothing to approve, or an item exists.
 */
export async function approveHeldDeletes(
  deps: SwitchDeps,
  flow: string,
  pks: readonly string[] | undefined,
  actor: string,
): Promise<number> {
  const { db } = deps.database
  const approved =
    pks === undefined ? await allHeldDeletes(db, flow) : await missedAmong(db, flow, pks)
  const [first] = approved
  const count =
    pks === undefined && first ? await countMissedSince(db, flow, first.since) : approved.length
  const detail = pks?.length === 1 ? `the delete of ${pks[0]}` : `${count} deletes`
  const action = { flow, action: 'deletes approved', actor, detail }
  await recorded(deps, action, async (trx, at) => {
    for (const { pk, since } of approved) {
      await approve(trx, {
        ...{ flow, subject: 'deletes', pk, read_number: since },
        ...{ approved_by: actor, approved_at: at },
      })
    }
    await requestFullScan(trx, flow)
  })
  return count
}

type Approved = { pk: string; since: number }

/** An approval with an empty key covers all items. */
async function allHeldDeletes(db: Db, flow: string): Promise<[Approved]> {
  const held = await findHeldDeletes(db, flow)
  if (!held) throw controlError('BAD_REQUEST', { code: 'NO_DELETES_HELD' })
  return [{ pk: '', since: held.read_number }]
}

async function missedAmong(db: Db, flow: string, pks: readonly string[]): Promise<Approved[]> {
  const missed = new Map((await findMissed(db, flow, pks)).map((one) => [one.pk, one]))
  return pks.map((pk) => {
    const one = missed.get(pk)
    if (one) return one
    throw controlError('BAD_REQUEST', { code: 'ITEM_NOT_MISSING', data: { pk } })
  })
}
