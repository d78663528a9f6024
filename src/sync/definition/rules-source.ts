import { basename, dirname } from 'node:path'
import { markerName } from '../sources/file-ready.ts'
import { hasPlaceholder } from '../sources/http-body.ts'
import { rowLimit, selectProblem } from '../sources/sql-select.ts'
import { scanSql } from '../sources/sql-text.ts'
import { parseXmlPath, XmlPathError } from '../sources/xml-path.ts'
import type { Path, PathFinding } from './findings.ts'
import { grantFindings } from './rules-oauth.ts'
import type { Flow } from './schema.ts'

type SqlSource = Extract<Flow['source'], { type: 'sql' }>
type HttpSource = Extract<Flow['source'], { type: 'http' }>

/** What in a source contradicts itself, the key of the items or the handling of deletes. */
export function sourceFindings(flow: Flow): PathFinding[] {
  const { source } = flow
  const findings: PathFinding[] = []
  if ('groupBy' in source && source.groupBy) findings.push(...groupFindings(flow, source.groupBy))
  if ('cursor' in source && source.cursor) findings.push(...overlapFindings(source.cursor))
  if (source.type === 'sql') findings.push(...sqlFindings(flow, source))
  if (source.type === 'http') {
    findings.push(...httpFindings(source), ...grantFindings(source.auth, ['source']))
  }
  if (source.type === 'file' || source.type === 'sftp') findings.push(...fileFindings(source))
  return [...findings, ...deleteFindings(flow)]
}

function groupFindings(
  { item, source }: Flow,
  { children }: { children: Readonly<Record<string, readonly string[]>> },
): PathFinding[] {
  const under: Path = ['source', 'groupBy', 'children']
  const findings: PathFinding[] = []
  if (source.type === 'http' && source.cursor && !source.item) {
    findings.push({
      path: ['source', 'groupBy'],
      isKey: true,
      message: 'needs source.item: with a cursor a changed group is read again whole, by its key',
      hint: 'add item: { url: "https://…/{pk}" }, or leave cursor out',
    })
  }
  if (Object.keys(children).length === 0) {
    const hint = 'write the name of the list and its columns: { cajas: [caja, caja_nombre] }'
    findings.push({ path: under, message: 'names no list', hint })
  }
  for (const [list, columns] of Object.entries(children)) {
    if (item.key.includes(list)) {
      findings.push({
        path: [...under, list],
        isKey: true,
        message: 'is a field of item.key, so it cannot be a list',
        hint: 'give the list another name',
      })
    }
    for (const [index, column] of columns.entries()) {
      if (!item.key.includes(column)) continue
      findings.push({
        path: [...under, list, index],
        message: 'is a field of item.key: every record would be an item of its own',
        hint: 'name here only what differs between the records of one item',
      })
    }
  }
  return findings
}

const time = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/

function overlapFindings({ initial, overlapMs }: { initial: string; overlapMs: number }) {
  const isTime = time.test(initial) && !Number.isNaN(Date.parse(initial))
  if (overlapMs === 0 || isTime) return []
  const finding: PathFinding = {
    path: ['source', 'cursor', 'overlap'],
    message: 'is a time, so it works only with a cursor that is one; initial is not',
    hint: 'leave overlap out, or make initial a time such as "1970-01-01T00:00:00Z"',
  }
  return [finding]
}

function sqlFindings({ item, deletes }: Flow, source: SqlSource): PathFinding[] {
  const findings: PathFinding[] = []
  const limit = rowLimit(source.query, source.driver)
  if (limit && (source.cursor || deletes.mode === 'delete')) {
    const what = source.cursor
      ? 'the cursor would pass rows that it leaves out'
      : 'the rows that it leaves out would be deleted'
    findings.push({
      path: ['source', 'query'],
      offset: limit.offset,
      message: `gives a part of the rows only (${limit.word}), and ${what}`,
      hint: 'leave that out: a read takes rows in portions of limits.fetchSize, however many there are',
    })
  }
  const used = parameters(source.query, source.driver)
  if (source.cursor && !used.some(({ name }) => name === 'cursor')) {
    findings.push(missingCursor(['source', 'query'], ':cursor', `where changed_at >= :cursor`))
  }
  const keys = item.key.flatMap((field, index) => [`key_${index + 1}`, `key_${field}`])
  const own = Object.keys(source.parameters ?? {})
  const known = [...(source.cursor ? ['cursor'] : []), ...own]
  findings.push(...selectFindings('query', source.query, source))
  findings.push(...unknownParameters('query', used, known, source))
  const usedForItem = parameters(source.itemQuery ?? '', source.driver)
  for (const name of own) {
    if ([...used, ...usedForItem].some((one) => one.name === name)) continue
    findings.push({
      path: ['source', 'parameters', name],
      isKey: true,
      message: 'is used neither by query nor by itemQuery',
      hint: `write :${name} where its value belongs, without quotes`,
    })
  }
  if (source.itemQuery === undefined) return findings

  findings.push(...selectFindings('itemQuery', source.itemQuery, source))
  findings.push(...unknownParameters('itemQuery', usedForItem, ['pk', ...keys, ...known], source))
  if (!usedForItem.some(({ name }) => name === 'pk' || keys.includes(name))) {
    findings.push({
      path: ['source', 'itemQuery'],
      message: 'does not say which item: it needs :pk',
      hint: `for example where ${item.key[0]} = :pk`,
    })
  } else if (item.key.length > 1 && usedForItem.some(({ name }) => name === 'pk')) {
    findings.push({
      path: ['source', 'itemQuery'],
      message: 'compares :pk, which is all fields of item.key joined by a pipe',
      hint: `compare them one by one: ${item.key.map((field, index) => `${field} = :key_${index + 1}`).join(' and ')}`,
    })
  }
  return findings
}

function selectFindings(
  key: 'query' | 'itemQuery',
  sql: string,
  { driver }: SqlSource,
): PathFinding[] {
  const problem = selectProblem(sql, driver)
  return problem ? [{ path: ['source', key], ...problem }] : []
}

type Parameter = { name: string; offset: number }

function parameters(sql: string, driver: SqlSource['driver']): Parameter[] {
  let offset = 0
  return scanSql(sql, driver).flatMap(({ kind, text }) => {
    const found = { name: text, offset }
    // A parameter's text is its name without the colon.
    offset += text.length + (kind === 'parameter' ? 1 : 0)
    return kind === 'parameter' ? [found] : []
  })
}

function unknownParameters(
  key: 'query' | 'itemQuery',
  used: readonly Parameter[],
  known: readonly string[],
  source: SqlSource,
): PathFinding[] {
  return used
    .filter(({ name }) => !known.includes(name))
    .slice(0, 50)
    .map(({ name, offset }) => {
      const isCursor = name === 'cursor' && !source.cursor
      const list = known.map((one) => `:${one}`).join(', ')
      return {
        path: ['source', key],
        offset,
        message: `has the parameter :${name}, for which there is no value`,
        hint: isCursor
          ? 'add source.cursor: { field: … }'
          : `known here: ${list || 'none'}; write a colon that is none as text: ':'`,
      }
    })
}

function httpFindings(source: HttpSource): PathFinding[] {
  const { url, body, item, cursor } = source
  const findings = [...bodyFindings(source), ...xmlFindings(source)]
  const hasCursor = url.template.includes('{cursor}')
  if (cursor && !hasCursor && !hasPlaceholder(body, 'cursor')) {
    findings.push(missingCursor(['source', 'url'], '{cursor}', '?changed_since={cursor}'))
  }
  if (!cursor && hasCursor) {
    findings.push({
      path: ['source', 'url'],
      message: 'holds {cursor}, but the source has no cursor',
      hint: 'add source.cursor: { field: … }',
    })
  }
  if (item && !item.url.template.includes('{pk}') && !hasPlaceholder(item.body, 'pk')) {
    findings.push({
      path: ['source', 'item', 'url'],
      message: 'does not say which item: it needs {pk}',
      hint: 'for example https://erp.example.com/api/products/{pk}',
    })
  }
  return findings
}

const fillers = { page: ['page'], offset: ['offset'], next: ['cursor', 'pageInfo'] } as const

/** A request that nobody answers as it is meant: a body that goes nowhere, pages that nobody asks for. */
function bodyFindings({ method, body, item, paging, cursor }: HttpSource): PathFinding[] {
  const findings: PathFinding[] = []
  for (const [under, given] of [
    [['source'], { method, body }],
    [['source', 'item'], item],
  ] as const) {
    if (given?.method !== 'GET' || !given.body) continue
    const hint = 'write POST, or leave method out'
    findings.push({ path: [...under, 'method'], message: 'sends no body', hint })
  }
  const at = (message: string, hint: string) =>
    findings.push({ path: ['source', 'body'], isKey: true, message, hint })
  for (const [name, types] of Object.entries(fillers)) {
    if (!hasPlaceholder(body, name) || types.some((type) => type === paging.type)) continue
    at(`holds {${name}}, but the pages are not read so`, `add paging: { type: ${types[0]} }`)
  }
  if (hasPlaceholder(body, 'size') && !('size' in paging && paging.size !== undefined)) {
    at('holds {size}, but paging has no size', 'add size to paging')
  }
  if (hasPlaceholder(body, 'cursor') && !cursor) {
    at('holds {cursor}, but the source has no cursor', 'add source.cursor: { field: … }')
  }
  if (paging.type === 'pageInfo' && !hasPlaceholder(body, 'next')) {
    findings.push({
      path: ['source', 'paging'],
      message: 'reads pageInfo, but no variable of the body holds {next}',
      hint: 'for example body: { graphql: …, variables: { after: "{next}" } }',
    })
  }
  return findings
}

function xmlFindings({ xml, items, item }: HttpSource): PathFinding[] {
  const paths: (readonly [Path, string | undefined])[] = [
    [['source', 'items'], items],
    [['source', 'item', 'items'], item?.items],
  ]
  if (!xml) {
    return paths
      .filter(([, given]) => given?.startsWith('/'))
      .map(([path]) => ({
        path,
        message: 'is a path of XML, but the answers are JSON',
        hint: 'add xml: {}, or join the names by dots',
      }))
  }
  const findings: PathFinding[] = []
  if (items === undefined) {
    const hint = 'add items: /Envelope/Body/Lista/Articulo'
    findings.push({ path: ['source', 'xml'], isKey: true, message: 'needs items', hint })
  }
  const check = (path: Path, given: string, isItems: boolean) => {
    const hint = isItems
      ? 'for example /Envelope/Body/Lista/Articulo'
      : 'for example Precio/@moneda'
    try {
      const steps = parseXmlPath(given, xml.namespaces)
      if (!isItems) return
      if (given.startsWith('/') && steps.every((one) => !one.isAttribute && !one.isList)) return
      findings.push({ path, message: 'is no path from the root to the elements', hint })
    } catch (error) {
      if (!(error instanceof XmlPathError)) throw error
      findings.push({ path, message: error.message, hint })
    }
  }
  for (const [path, given] of paths) if (given !== undefined) check(path, given, true)
  for (const [name, given] of Object.entries(xml.fields ?? {})) {
    check(['source', 'xml', 'fields', name], given, false)
  }
  return findings
}

function missingCursor(path: Path, parameter: string, example: string): PathFinding {
  return {
    path,
    message: `does not use ${parameter}, so the cursor would have no effect`,
    hint: `for example ${example}; or leave source.cursor out`,
  }
}

function fileFindings({
  path,
  ready,
}: Extract<Flow['source'], { type: 'file' | 'sftp' }>): PathFinding[] {
  if (ready !== undefined && markerName(ready, path) === basename(path)) {
    const message = 'is the name of the file itself'
    return [{ path: ['source', 'ready'], message, hint: 'for example {name}.ok' }]
  }
  if (!dirname(path).includes('*')) return []
  const message = 'has a * in its folder; it can only stand in the name of the file'
  return [{ path: ['source', 'path'], message, hint: 'make a flow for each folder' }]
}

function deleteFindings({ source, deletes }: Flow): PathFinding[] {
  if (deletes.mode !== 'delete' || !source.type.startsWith('payments.')) return []
  const [, things] = source.type.split('.')
  const message = `cannot be delete with ${source.type}: ${things} never vanish`
  return [{ path: ['deletes', 'mode'], message, hint: 'write ignore' }]
}
