import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { flowJsonSchema, type JsonSchema } from '../../src/flows/definition/json-schema.ts'

/** The texts of a source file that stand under a language, without their placeholders. */
function textsOf(source: string): string[] {
  const found = source.matchAll(/\b(?:es|en|pt):\s*(['"`])(.*?)\1/g)
  return [...found].map(([, , text]) => text?.replaceAll(/\{[^}]*\}/g, '') ?? '')
}

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
  const texts = globSync('src/**/*.ts').flatMap((file) => textsOf(readFileSync(file, 'utf8')))
  expect(texts.length).toBeGreaterThan(100)
  const keys = new Set(keysOfDefinitions(flowJsonSchema()))
  const namesIn = (text: string) =>
    (text.match(/\w*[a-z][A-Z]\w*/g) ?? []).filter((name) => !keys.has(name) && !names.has(name))
  expect(texts.filter((text) => namesIn(text).length > 0)).toEqual([])
})
