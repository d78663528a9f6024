import type { Arrival, Ledger } from './ledger.ts'

type Row = { id: string; pk: string }

/** A receiver that gives its items ids of its own, and knows nothing of their keys but what it is told. */
export type Shop = {
  /** Makes an item, also one that is there already: then it is there twice. Answers its id. */
  create(arrival: Arrival): string
  /** Changes what is there under an id; false when there is nothing. */
  change(id: string, arrival: Arrival): boolean
  remove(id: string, arrival: Arrival): boolean
  removeKey(arrival: Arrival): void
  keyOf(id: string): string | undefined
  /** What is there of a key. */
  find(pk: string): Row | undefined
  /** Somebody at the shop removes an item. */
  throwAway(pk: string): void
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
    throwAway(pk) {
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
