import type { Db } from '../../db/database.ts'
import type { FlowStateRow } from '../../repositories/flows/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { DriftPreview } from '../sync-preview.ts'
import type { SourceRow } from '../types.ts'
import type { FoundChange } from './compare.ts'
import { countedOf, createCount, readHeld, watchShape } from './drift.ts'
import { type Finding, isAmong, reasonOf } from './shape.ts'

export type ForeseenDrift = {
  look(rows: readonly SourceRow[]): void
  count(changes: readonly FoundChange[]): Promise<void>
  /** Of all that was looked at and counted. */
  verdict(): DriftPreview
}

/** What a poll would hold its flow for; it looks on where a poll ends. */
export async function foreseeDrift(
  db: Db,
  runtime: FlowRuntime,
  state: FlowStateRow,
): Promise<ForeseenDrift> {
  const { name, drift } = runtime.flow
  const held = await readHeld(db, name)
  const shape = watchShape(runtime, state)
  const counted = drift.changed && createCount(db, name, drift.changed, held)
  const findings: Finding[] = []
  return {
    look(rows) {
      const found = shape?.look(rows) ?? []
      findings.push(...found.filter((one) => !isAmong(one, findings)))
    },
    async count(changes) {
      await counted?.add(countedOf(changes))
    },
    verdict() {
      const share = counted?.finding()
      const all = share ? [...findings, share] : findings
      if (all.some((one) => !isAmong(one, held.approved))) {
        return { verdict: 'hold', reason: reasonOf(all) }
      }
      if (held.row && held.isApproved) return { verdict: 'approved', reason: held.row.reason }
      return { verdict: 'none', reason: null }
    },
  }
}
