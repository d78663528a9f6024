import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { orderStatuses } from '../../src/domain/order.ts'
import { orderStates, type StateFlag, statesThat } from '../../src/domain/order-state.ts'

const root = `${import.meta.dirname}/../../`
const textOf = (file: string) => readFileSync(`${root}${file}`, 'utf8')
const flags = [...new Set(Object.values(orderStates).flatMap((state) => Object.keys(state)))]
const lists = flags
  .filter((flag): flag is StateFlag => flag !== 'next')
  .map((flag) => statesThat(flag).toSorted().join(' '))

/** Quoted words of this text that follow each other, if all are states of orders. */
function listsOfStates(text: string): string[] {
  return [...text.matchAll(/(?:'\w+',\s*)+'\w+'/g)]
    .map(([found]) => [...found.matchAll(/'(\w+)'/g)].map(([, word = '']) => word))
    .filter((words) => words.every((word) => orderStatuses.includes(word as never)))
    .map((words) => words.toSorted().join(' '))
}

test('each list of states in the migrations of orders is one of the table of states', () => {
  const found = listsOfStates(textOf('migrations/0003_orders.sql'))
  expect(found.length).toBeGreaterThan(8)
  // All states, and those of an order that the provider refused and that was never at its terminal.
  const known = [...lists, orderStatuses.toSorted().join(' '), 'canceled failed']
  expect(found.filter((list) => !known.includes(list))).toEqual([])
})

test('no other file of the service or of its pages lists states of orders', () => {
  const own = ['src/domain/order-state.ts', 'src/domain/order.ts', 'src/db/tables.ts']
  // These name what the provider takes or sends, by its words.
  const words = ['src/payments/orders/busy-terminal.ts', 'src/routes/admin/simulate-schemas.ts']
  const pages = ['public/dashboard/order-states.js']
  const files = globSync(['src/**/*.ts', 'public/**/*.js', 'migrations/*.sql'], { cwd: root })
  const listing = files
    .filter((file) => ![...own, ...words, ...pages, 'migrations/0003_orders.sql'].includes(file))
    .filter((file) => listsOfStates(textOf(file)).length > 0)
  expect(listing.map((file) => [file, listsOfStates(textOf(file))])).toEqual([])
})
