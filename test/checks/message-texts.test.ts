import { expect, test } from 'vitest'
import { flowJsonSchema, type JsonSchema } from '../../src/flows/definition/json-schema.ts'
import { texts } from '../../src/texts/texts.ts'

/** What an operator writes in a flow file is named as it stands there. */
function keysOfDefinitions({
  properties = {},
  anyOf = [],
  oneOf = [],
  items,
}: JsonSchema): string[] {
  const below = [...Object.values(properties), ...anyOf, ...oneOf, ...(items ? [items] : [])]
  return [...Object.keys(properties), ...below.flatMap(keysOfDefinitions)]
}

/** Products, units, and names that other systems have. */
const names = new Set([
  ...['MariaDB', 'InterBase', 'FoxPro', 'dBase', 'KiB', 'MiB'],
  ...['pageInfo', 'hasNextPage', 'endCursor', 'uNiVztksCsDhcc0u9e8BrwJ2cb8x8nKmvtSrmPtDWMw'],
])

test('no text for people has a name of the code in it', () => {
  const all = Object.values(texts).flatMap((one) => Object.values(one))
  const plain = all.map((text) => text.replaceAll(/\{[^}]*\}/g, ''))
  const keys = new Set(keysOfDefinitions(flowJsonSchema()))
  const namesIn = (text: string) =>
    (text.match(/\w*[a-z][A-Z]\w*/g) ?? []).filter((name) => !keys.has(name) && !names.has(name))
  expect(plain.filter((text) => namesIn(text).length > 0)).toEqual([])
})
