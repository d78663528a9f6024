import { expect, test } from 'vitest'
import { itemPathOf, losesFieldSuffix, readOnceSuffix, unpolledSuffix } from './test-flow.ts'

test.each([
  's12-3',
  `s12-3${unpolledSuffix}`,
  `s12-3${losesFieldSuffix}`,
  `s12-3${readOnceSuffix}`,
])('a difference of the flow %s leads to the report of its item', (name) => {
  const path = `/flow/${name}/items/i7`
  expect(itemPathOf(`${name}: i7 has text a`)).toBe(path)
  expect(itemPathOf(`${name}, second: i7 is missing`)).toBe(path)
  expect(itemPathOf(`${name}: 3 deliveries are open`)).toBeUndefined()
})
