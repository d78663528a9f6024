import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import type { FlowContext } from '../../src/sync/definition/context.ts'
import { flowJsonSchema, type JsonSchema } from '../../src/sync/definition/json-schema.ts'
import { createFlowReader } from '../../src/sync/definition/read-flow.ts'

const folder = fileURLToPath(new URL('../../docs/flows', import.meta.url))
const pages = readdirSync(folder).filter((name) => name.endsWith('.md'))
const text = (page: string) => readFileSync(join(folder, page), 'utf8')
const blocks = pages.flatMap((page) =>
  [...text(page).matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, yaml = ''], index) => ({
    page,
    place: `${page} ${index + 1}`,
    yaml,
  })),
)

const databases = {
  postgres: 'postgres://h/d',
  mysql: 'mysql://h/d',
  mssql: 'mssql://h/d',
  firebird: 'firebird://u@h/d',
  oracle: 'oracle://u@h/d',
}

/** Whatever an example refers to is there; an address suits the first driver that it names. */
function contextOf(yaml: string): FlowContext {
  const driver = /\bdriver: (\w+)/.exec(yaml)?.[1] as keyof typeof databases | undefined
  const names = [...yaml.matchAll(/\$\{env:(\w+)\}/g)].map(([, name = '']) => name)
  const valueOfName = (name: string) => {
    if (!name.endsWith('URL')) return 'a-secret-value'
    return driver ? databases[driver] : 'https://example.com/hook'
  }
  return {
    env: Object.fromEntries(names.map((name) => [name, valueOfName(name)])),
    readFile: (path) => (path.endsWith('_key') ? '-----BEGIN PRIVATE KEY-----' : 'a-secret-value'),
    mail: { smtpUrl: 'smtp://mail:25', mailFrom: 'flows@example.com' },
  }
}

const whole = {
  version: 'version: 1',
  name: 'name: example',
  pollInterval: 'pollInterval: 60s',
  source: 'source: { type: file, path: a.csv, format: csv }',
  item: 'item: { key: codigo }',
  destinations: 'destinations:\n  - { name: out, type: file, path: out.ndjson }',
}

/** An example may be a part of a flow; what is missing then is added. */
function asFlow(yaml: string): string {
  const given = Object.keys((parse(yaml) ?? {}) as object)
  const missing = Object.entries(whole).filter(([key]) => !given.includes(key))
  return [...missing.map(([, line]) => line), yaml].join('\n')
}

test.each(blocks)('the example $place is a flow that the check takes', ({ yaml }) => {
  const found = createFlowReader(contextOf(yaml))('f.flow.yaml', Buffer.from(asFlow(yaml)))
  expect('problems' in found ? found.problems : []).toEqual([])
})

/** What the places at which a key may stand say of it. */
type Key = { defaults: Set<unknown>; isRequired: boolean }

/** All keys below a schema, joined by dots. A default that is a group counts by the type that it names, or as the list it is. */
function keysOf(schema: JsonSchema, under: string): Map<string, Key> {
  const keys = new Map<string, Key>()
  const merge = (more: Map<string, Key>) => {
    for (const [key, one] of more) {
      const known = keys.get(key)
      keys.set(key, {
        defaults: new Set([...(known?.defaults ?? []), ...one.defaults]),
        isRequired: one.isRequired || known?.isRequired === true,
      })
    }
  }
  for (const one of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) merge(keysOf(one, under))
  if (schema.items) merge(keysOf(schema.items, `${under}[]`))
  for (const [name, child] of Object.entries(schema.properties ?? {})) {
    const key = under === '' ? name : `${under}.${name}`
    const isRequired = Array.isArray(schema.required) && schema.required.includes(name)
    merge(new Map([[key, { defaults: new Set(defaultsOf(child)), isRequired }]]))
    merge(keysOf(child, key))
  }
  return keys
}

function defaultsOf({ default: value }: JsonSchema): unknown[] {
  if (Array.isArray(value)) return value.length > 0 ? [value.join(', ')] : []
  if (typeof value !== 'object' || value === null) return value === undefined ? [] : [value]
  return 'type' in value ? [value.type] : []
}

/** The schemas of a kind, such as all that begin with `payments.` for `payments`. */
function schemasOf(side: string, kind: string): JsonSchema[] {
  const { source, destinations } = flowJsonSchema().properties ?? {}
  const schema = side === 'sources' ? source : destinations?.items
  return [...(schema?.anyOf ?? []), ...(schema?.oneOf ?? [])].filter(({ properties }) => {
    const type = String(properties?.type?.const)
    return type === kind || type.startsWith(`${kind}.`)
  })
}

const kinds = pages.flatMap((page) => {
  const [, side, kind] = /^(sources|destinations)-(.+)\.md$/.exec(page) ?? []
  return side && kind ? [{ page, side, kind }] : []
})

/** What stands in the column for the default, by key. */
function rowsOf(page: string): Map<string, string> {
  const found = page.matchAll(/^\| `([^`]+)` \|(.*?)\|/gm)
  return new Map([...found].map(([, key = '', cell = '']) => [key, cell.trim()]))
}

/** What is wrong with what a page says of the default of a key. */
function wrongDefaults(cell: string, { defaults, isRequired }: Key): string[] {
  const told = [...cell.matchAll(/`([^`]+)`/g)].map(([, value = '']) => value)
  const real = [...defaults].map(String).filter((value) => value !== '')
  const problems = [
    ...real.filter((value) => !told.includes(value)).map((value) => `its default is ${value}`),
    ...told.filter((value) => !real.includes(value)).map((value) => `its default is not ${value}`),
  ]
  if (cell === 'required' && !isRequired) problems.push('is not required')
  if (cell === '' && isRequired) problems.push('is required')
  if (cell !== '' && cell !== 'required' && told.length === 0) problems.push(`is told as ${cell}`)
  return problems
}

test.each(kinds)('$page has a line for every key, with its default', ({ page, side, kind }) => {
  const schemas = schemasOf(side, kind)
  expect(schemas, `there is no kind ${kind}`).not.toEqual([])
  const own = rowsOf(text(page))
  // Where a page says so, the keys that it does not name are told by another one.
  const [, other] = /^Other keys are those of \[[^\]]+\]\(([\w-]+\.md)\)/m.exec(text(page)) ?? []
  const rows = new Map([...(other ? rowsOf(text(other)) : []), ...own])
  const problems: string[] = []
  for (const schema of schemas) {
    for (const [key, one] of keysOf(schema, '')) {
      // Groups whose keys have lines of their own need none.
      const isGroup = [...rows.keys()].some((one) => one.startsWith(`${key}.`))
      if (key === 'type' || (isGroup && !rows.has(key))) continue
      // What may be one or a list of them has one line for both.
      const cell = rows.get(key) ?? rows.get(key.replace('[]', ''))
      if (cell === undefined) problems.push(`${key}: is not named`)
      else problems.push(...wrongDefaults(cell, one).map((wrong) => `${key}: ${wrong}`))
    }
  }
  const known = schemas.flatMap((schema) => [...keysOf(schema, '').keys()])
  for (const key of own.keys()) if (!known.includes(key)) problems.push(`${key}: is no key`)
  expect(problems).toEqual([])
})

test('what is told of all destinations, all of them have', () => {
  const told = [...rowsOf(text('destinations.md')).keys()]
  for (const { kind } of kinds.filter(({ side }) => side === 'destinations')) {
    for (const schema of schemasOf('destinations', kind)) {
      expect([...keysOf(schema, '').keys()]).toEqual(expect.arrayContaining(told))
    }
  }
})

test('every kind of source and destination has a page, and each page an example', () => {
  const { source, destinations } = flowJsonSchema().properties ?? {}
  const typesOf = (schema: JsonSchema | undefined) =>
    [...(schema?.anyOf ?? []), ...(schema?.oneOf ?? [])].map(({ properties }) =>
      String(properties?.type?.const).replace(/\..*/, ''),
    )
  const pagesOf = (side: string) =>
    kinds
      .filter((one) => one.side === side)
      .map(({ kind }) => kind)
      .toSorted()
  expect(pagesOf('sources')).toEqual([...new Set(typesOf(source))].toSorted())
  expect(pagesOf('destinations')).toEqual([...new Set(typesOf(destinations?.items))].toSorted())
  for (const page of pages)
    expect(
      blocks.some((block) => block.page === page),
      page,
    ).toBe(true)
})
