import type { Arrival, Ledger } from './ledger.ts'

type Row = { id: string; pk: string }

/** A receiver that gives its items ids of its own. It has their keys only from the requests. */
export type Shop = {
  /** Creates an item, also one that exists: then it exists twice. Returns its id. */
  create(arrival: Arrival): string
  /** Changes the item with this id; false when there is none. */
  change(id: string, arrival: Arrival): boolean
  remove(id: string, arrival: Arrival): boolean
  removeKey(arrival: Arrival): void
  keyOf(id: string): string | undefined
  /** The item with this key. */
  find(pk: string): Row | undefined
  /** Removes an item as the shop's staff would. */
  removeAtShop(pk: string): void
  empty(): void
}

export function createShop(ledger: Ledger, name: string): Shop {
  const rows = new Map<string, Row>()
  let made = 0
  const find = (pk: string) => [...rows.values()].find((row) => row.pk === pk)
  return {
    create(arrival) {
      const { pk } = arrival
      const there = find(pk)
      if (there)
        ledger.violated(`${pk}: created at the ${name} although it is there as ${there.id}`)
      made += 1
      const id = `n${made}`
      rows.set(id, { id, pk })
      ledger.applied(arrival)
      return id
    },
    change(id, arrival) {
      const row = rows.get(id)
      if (!row) return false
      if (row.pk !== arrival.pk) {
        ledger.violated(`${arrival.pk}: changed as ${id}, which is ${row.pk}`)
      }
      ledger.applied(arrival)
      return true
    },
    remove(id, arrival) {
      const row = rows.get(id)
      if (!row) return false
      if (row.pk !== arrival.pk) {
        ledger.violated(`${arrival.pk}: deleted as ${id}, which is ${row.pk}`)
      }
      rows.delete(id)
      ledger.applied(arrival)
      return true
    },
    removeKey(arrival) {
      const row = find(arrival.pk)
      if (row) rows.delete(row.id)
      ledger.applied(arrival)
    },
    keyOf: (id) => rows.get(id)?.pk,
    find,
    removeAtShop(pk) {
      const row = find(pk)
      if (!row) return
      rows.delete(row.id)
      ledger.lost(pk)
    },
    empty() {
      rows.clear()
      ledger.lost()
    },
  }
}
