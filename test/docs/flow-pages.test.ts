import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { referencePage } from '../../checks/references/flow-keys.ts'
import { reasonsPage } from '../../checks/references/flow-reasons.ts'
import type { FlowContext } from '../../src/flows/definition/flow-context.ts'
import { flowJsonSchema, type JsonSchema } from '../../src/flows/definition/json-schema.ts'
import { loadConnections } from '../../src/flows/definition/named-connections.ts'
import { createFlowReader } from '../../src/flows/loading/read-flow.ts'
import { blocksOf, documentPages } from '../support/document-blocks.ts'

const folder = fileURLToPath(new URL('../../docs/reference/flows', import.meta.url))
const pages = readdirSync(folder).filter((name) => name.endsWith('.md'))
const text = (page: string) => readFileSync(join(folder, page), 'utf8')
const root = fileURLToPath(new URL('../..', import.meta.url))
const blocks = documentPages(root).flatMap((page) =>
  blocksOf(root, page)
    .filter(({ language }) => language === 'yaml')
    .map(({ text: yaml, line }) => ({ page: basename(page), place: `${page}:${line}`, yaml })),
)

const databases = {
  postgres: 'postgres://h/d',
  mysql: 'mysql://h/d',
  mssql: 'mssql://h/d',
  firebird: 'firebird://u@h/d',
}

/** Gives a value to each reference of an example; an address has the form of the first driver in it. */
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

/** Completes an example that is only a part of a flow. */
function asFlow(yaml: string): string {
  const given = Object.keys((parse(yaml) ?? {}) as object)
  const missing = Object.entries(whole).filter(([key]) => !given.includes(key))
  return [...missing.map(([, line]) => line), yaml].join('\n')
}

const isOfConnections = ({ yaml }: { yaml: string }) => /^connections:$/m.test(yaml)

/** The connections of an example, read from a file. */
function connectionsOf(yaml: string) {
  const file = join(mkdtempSync(join(tmpdir(), 'tillbridge-connections-')), 'connections.yaml')
  writeFileSync(file, yaml)
  onTestFinished(() => rmSync(dirname(file), { recursive: true }))
  return loadConnections({ ...contextOf(yaml), connectionsFile: file })
}

test.each(blocks.filter(isOfConnections))(
  'the example $place has valid connections',
  ({ yaml }) => {
    const { byName, problems } = connectionsOf(yaml)
    expect([problems, byName.size > 0]).toEqual([[], true])
  },
)

test.each(blocks.filter((one) => !isOfConnections(one)))(
  'the example $place is a valid flow',
  ({ yaml }) => {
    // A page has its connections in the block before.
    const byName = new Map(
      blocks.filter(isOfConnections).flatMap((one) => [...connectionsOf(one.yaml).byName]),
    )
    const connections = { byName, unusable: new Set<string>(), problems: [] }
    const read = createFlowReader(contextOf(yaml), connections)
    const found = read('f.flow.yaml', Buffer.from(asFlow(yaml)))
    expect('problems' in found ? found.problems : []).toEqual([])
  },
)

const kinds = pages.flatMap((page) => {
  const [, side, kind] = /^(sources|destinations)-(.+)\.md$/.exec(page) ?? []
  return side && kind ? [{ page, side, kind }] : []
})

test('the reference has every key of a definition and is current (npm run flows:schema)', () => {
  expect(text('definition.md')).toBe(referencePage())
})

test('the reference of reasons is current (npm run flows:schema)', () => {
  expect(text('reasons.md')).toBe(reasonsPage())
})

test('the check names keys without a meaning', () => {
  const schema = structuredClone(flowJsonSchema())
  delete schema.properties?.version?.description
  expect(() => referencePage(schema)).toThrow('The flow: version has no description or no example')
})

const ajv = new Ajv({ strict: false, validateFormats: false })

/** The schemas with an example, by their place. */
function described(schema: JsonSchema, place = ''): [place: string, schema: JsonSchema][] {
  const own: [string, JsonSchema][] = Array.isArray(schema.examples) ? [[place, schema]] : []
  const below = [
    ...Object.entries(schema.properties ?? {}),
    ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].map(
      (one) => [String(one.properties?.type?.const ?? ''), one] as const,
    ),
    ...(schema.items ? [['[]', schema.items] as const] : []),
  ]
  return [...own, ...below.flatMap(([name, one]) => described(one, `${place} ${name}`))]
}

test.each(described(flowJsonSchema()))(
  'the example of %s is a value that the schema takes, and its meaning is short',
  (_, { examples, description, ...schema }) => {
    for (const example of examples as unknown[]) expect(ajv.validate(schema, example)).toBe(true)
    expect(String(description).length).toBeGreaterThan(2)
    expect(String(description).length).toBeLessThanOrEqual(500)
  },
)

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
  for (const page of pages.filter((name) => !['definition.md', 'reasons.md'].includes(name)))
    expect(
      blocks.some((block) => block.page === page),
      page,
    ).toBe(true)
})
