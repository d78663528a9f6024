import { expect, test } from 'vitest'
// biome-ignore lint/suspicious/noTsIgnore: a module of the pages, which have no types
// @ts-ignore
import { completionsAt } from '../../public/admin/workbench/completion.js'
import { flowJsonSchema } from '../../src/flows/definition/json-schema.ts'

const schema = flowJsonSchema()

/** The labels that are offered at the `|` of the text, and the begin of the text that they replace. */
function at(text: string): { from: number; labels: string[] } | null {
  const head = text.slice(0, text.indexOf('|')).split('\n')
  const lines = text.replace('|', '').split('\n')
  const found = completionsAt(schema, lines, head.length - 1, head.at(-1)?.length ?? 0)
  return (
    found && {
      from: found.from,
      labels: found.options.map(({ label }: { label: string }) => label),
    }
  )
}

test('the editor offers the keys of a flow that are not used yet', () => {
  const found = at('version: 1\nname: x\npo|\n')
  expect(found?.from).toBe(0)
  expect(found?.labels).toContain('pollInterval')
  expect(found?.labels).toContain('source')
  expect(found?.labels).not.toContain('name')
})

test('the offered keys of a source depend on its type, wherever the type is', () => {
  const sql = at('source:\n  type: sql\n  |\n')
  expect(sql?.labels).toEqual(expect.arrayContaining(['driver', 'query', 'url']))
  expect(sql?.labels).not.toContain('csv')
  const file = at('source:\n  |\n  type: file\n')
  expect(file?.labels).toEqual(expect.arrayContaining(['path', 'csv', 'settle']))
  expect(file?.labels).not.toContain('query')
})

test('the editor offers the values of an enumeration', () => {
  expect(at('source:\n  type: |\n')?.labels).toEqual(
    expect.arrayContaining(['sql', 'http', 'file', 'sftp']),
  )
  const drivers = at('source:\n  type: sql\n  driver: po|\n')
  expect(drivers).toEqual({ from: 10, labels: ['postgres', 'mysql', 'mssql', 'firebird'] })
  expect(at('allowPrivateNetwork: |')?.labels).toEqual(['true', 'false'])
})

test('the items of a list are completed separately', () => {
  const text = [
    'destinations:',
    '  - name: shop',
    '    type: http',
    '    request:',
    '      |',
    '  - name: list',
    '    type: file',
    '    path: x',
  ].join('\n')
  expect(at(text)?.labels).toEqual(expect.arrayContaining(['url', 'method', 'headers']))
  const second = at(text.replace('|', 'url: x').replace('path: x', '|'))
  expect(second?.labels).toEqual(expect.arrayContaining(['path', 'format']))
  expect(second?.labels).not.toContain('request')
  const first = at(
    text.replace('      |', '      url: x').replace('type: http', 'type: http\n    |'),
  )
  expect(first?.labels).toContain('batch')
  expect(first?.labels).not.toContain('request')
})

test('a list at the column of its key, and a line with only a dash, are completed', () => {
  const found = at('destinations:\n- type: sql\n  |\n')
  expect(found?.labels).toContain('upsertKey')
  expect(at('destinations:\n  - |\n')?.labels).toEqual(expect.arrayContaining(['name', 'type']))
  expect(at('destinations:\n  - type: |\n')?.labels).toContain('http')
})

test('nothing is offered within a text, a comment or an unknown part', () => {
  expect(at('name: x y|')).toBeNull()
  expect(at('# ty|')).toBeNull()
  expect(at('nothing:\n  |')).toBeNull()
})
