import type { Journal } from './journal.ts'
import {
  type Change,
  type Effect,
  emptyTables,
  type Order,
  type TableName,
  type Tables,
} from './rows.ts'

export type SandboxState = {
  tables: Tables
  /** Ids of orders on a terminal: only these can expire. */
  openOrders: Set<string>
  effects: Effect[]
  /** Writes one effect to the ledger, then applies it. When it returns, a kill -9 cannot undo it. */
  commit: (kind: string, ref: string, change: Change) => void
}

const openStates: ReadonlySet<string> = new Set([
  'created',
  'at_terminal',
  'processing',
  'in_process',
])

/** An open order keeps its terminal busy (provider facts 2.1, `already_queued_order_on_terminal`). */
export function isOpen(order: Order): boolean {
  return openStates.has(order.status)
}

/** The provider's whole state, rebuilt from the lines of the journal. Values are replaced, never changed in place. */
export function createSandboxState(journal: Journal, nowMs: () => number): SandboxState {
  const tables = emptyTables()
  const openOrders = new Set<string>()
  const effects: Effect[] = []

  function apply(change: Change): void {
    for (const [name, values] of Object.entries(change)) {
      const table = tables[name as TableName] as Map<string, unknown> | undefined
      if (table === undefined) continue
      for (const [id, value] of Object.entries(values)) {
        if (value === null) table.delete(id)
        else table.set(id, value)
      }
    }
    for (const [id, order] of Object.entries(change.orders ?? {})) {
      if (order !== null && isOpen(order)) openOrders.add(id)
      else openOrders.delete(id)
    }
  }

  for (const line of journal.lines()) {
    const { change, ...effect } = line as Effect & { change: Change }
    apply(change)
    effects.push(effect)
  }

  return {
    tables,
    openOrders,
    effects,
    commit(kind, ref, change) {
      const seq = (effects.at(-1)?.seq ?? 0) + 1
      const effect = { seq, at: new Date(nowMs()).toISOString(), kind, ref }
      journal.append(JSON.stringify({ ...effect, change }))
      apply(change)
      effects.push(effect)
    },
  }
}

/** Joins two changes into one line of the ledger. */
export function mergeChanges(first: Change, second: Change): Change {
  const merged: Record<string, unknown> = { ...first }
  for (const [name, values] of Object.entries(second)) {
    merged[name] = { ...(first[name as TableName] ?? {}), ...values }
  }
  return merged as Change
}
