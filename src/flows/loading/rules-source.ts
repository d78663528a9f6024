import { basename, dirname } from 'node:path'
import type { Reason } from '../../texts/reason.ts'
import type { Path, PathFinding } from '../definition/findings.ts'
import { grantFindings } from '../definition/oauth-schema.ts'
import type { Flow } from '../definition/schema.ts'
import { markerName } from '../sources/file-readiness.ts'
import { hasPlaceholder } from '../sources/http-body.ts'
import { rowLimit, selectProblem } from '../sources/sql-select.ts'
import { scanSql } from '../sources/sql-text.ts'
import { parseXmlPath, XmlPathError } from '../sources/xml-path.ts'

type SqlSource = Extract<Flow['source'], { type: 'sql' }>
type HttpSource = Extract<Flow['source'], { type: 'http' }>

/** Contradictions in a source, with the key of the items, and with the handling of deletes. */
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
      why: { code: 'GROUP_NEEDS_ITEM', data: { example: 'item: { url: "https://…/{pk}" }' } },
    })
  }
  if (Object.keys(children).length === 0) {
    findings.push({ path: under, why: { code: 'NAMES_NO_LIST' } })
  }
  for (const [list, columns] of Object.entries(children)) {
    if (item.key.includes(list)) {
      findings.push({
        path: [...under, list],
        isKey: true,
        why: { code: 'LIST_IN_KEY' },
      })
    }
    for (const [index, column] of columns.entries()) {
      if (!item.key.includes(column)) continue
      findings.push({
        path: [...under, list, index],
        why: { code: 'CHILD_IN_KEY' },
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
    why: { code: 'OVERLAP_WITHOUT_TIME' },
  }
  return [finding]
}

function sqlFindings({ item, deletes }: Flow, source: SqlSource): PathFinding[] {
  const findings: PathFinding[] = []
  const limit = rowLimit(source.query, source.driver)
  if (limit && (source.cursor || deletes.mode === 'delete')) {
    const code = source.cursor ? 'LIMIT_WITH_CURSOR' : 'LIMIT_WITH_DELETES'
    findings.push({
      path: ['source', 'query'],
      why: { code, data: { word: limit } },
    })
  }
  const used = parameters(source.query, source.driver)
  if (source.cursor && !used.includes('cursor')) {
    findings.push(missingCursor(['source', 'query'], ':cursor', `where changed_at >= :cursor`))
  }
  const keys = item.key.flatMap((field, index) => [`key_${index + 1}`, `key_${field}`])
  const own = Object.keys(source.parameters ?? {})
  const known = [...(source.cursor ? ['cursor'] : []), ...own]
  findings.push(...selectFindings('query', source.query, source))
  findings.push(...unknownParameters('query', used, known, source))
  const usedForItem = parameters(source.itemQuery ?? '', source.driver)
  for (const name of own) {
    if ([...used, ...usedForItem].includes(name)) continue
    findings.push({
      path: ['source', 'parameters', name],
      isKey: true,
      why: { code: 'PARAMETER_UNUSED', data: { name } },
    })
  }
  if (source.itemQuery === undefined) return findings

  findings.push(...selectFindings('itemQuery', source.itemQuery, source))
  findings.push(...unknownParameters('itemQuery', usedForItem, ['pk', ...keys, ...known], source))
  if (!usedForItem.some((name) => name === 'pk' || keys.includes(name))) {
    findings.push({
      path: ['source', 'itemQuery'],
      why: { code: 'ITEM_QUERY_WITHOUT_KEY', data: { field: item.key[0] ?? '' } },
    })
  } else if (item.key.length > 1 && usedForItem.includes('pk')) {
    findings.push({
      path: ['source', 'itemQuery'],
      why: {
        code: 'PK_OF_SEVERAL_FIELDS',
        data: {
          condition: item.key.map((field, index) => `${field} = :key_${index + 1}`).join(' and '),
        },
      },
    })
  }
  return findings
}

function selectFindings(
  key: 'query' | 'itemQuery',
  sql: string,
  { driver }: SqlSource,
): PathFinding[] {
  const why = selectProblem(sql, driver)
  return why ? [{ path: ['source', key], why }] : []
}

/** The names of the parameters in a query. */
function parameters(sql: string, driver: SqlSource['driver']): string[] {
  return scanSql(sql, driver).flatMap(({ kind, text }) => (kind === 'parameter' ? [text] : []))
}

function unknownParameters(
  key: 'query' | 'itemQuery',
  used: readonly string[],
  known: readonly string[],
  source: SqlSource,
): PathFinding[] {
  return used
    .filter((name) => !known.includes(name))
    .slice(0, 50)
    .map((name): PathFinding => {
      const isCursor = name === 'cursor' && !source.cursor
      const list = known.map((one) => `:${one}`).join(', ')
      const none = { code: 'PARAMETERS_NONE' } as const
      return {
        path: ['source', key],
        why: isCursor
          ? { code: 'PARAMETER_CURSOR', data: { name } }
          : { code: 'PARAMETER_UNKNOWN', data: { name, known: list || none } },
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
      why: { code: 'HOLDS_CURSOR', data: { placeholder: '{cursor}' } },
    })
  }
  if (item && !item.url.template.includes('{pk}') && !hasPlaceholder(item.body, 'pk')) {
    findings.push({
      path: ['source', 'item', 'url'],
      why: { code: 'ITEM_URL_WITHOUT_KEY', data: { placeholder: '{pk}' } },
    })
  }
  return findings
}

const fillers = { page: ['page'], offset: ['offset'], next: ['cursor', 'pageInfo'] } as const

/** Request settings without effect: a body that is not sent, or paging without a page parameter. */
function bodyFindings({ method, body, item, paging, cursor }: HttpSource): PathFinding[] {
  const findings: PathFinding[] = []
  for (const [under, given] of [
    [['source'], { method, body }],
    [['source', 'item'], item],
  ] as const) {
    if (given?.method !== 'GET' || !given.body) continue
    findings.push({ path: [...under, 'method'], why: { code: 'SENDS_NO_BODY' } })
  }
  const atBody = (why: Reason) => findings.push({ path: ['source', 'body'], isKey: true, why })
  for (const [name, types] of Object.entries(fillers)) {
    if (!hasPlaceholder(body, name) || types.some((type) => type === paging.type)) continue
    const data = { placeholder: `{${name}}`, type: types[0] }
    atBody({ code: 'PAGES_NOT_READ_SO', data })
  }
  if (hasPlaceholder(body, 'size') && !('size' in paging && paging.size !== undefined)) {
    atBody({ code: 'PAGING_WITHOUT_SIZE', data: { placeholder: '{size}' } })
  }
  if (hasPlaceholder(body, 'cursor') && !cursor) {
    atBody({ code: 'HOLDS_CURSOR', data: { placeholder: '{cursor}' } })
  }
  if (paging.type === 'pageInfo' && !hasPlaceholder(body, 'next')) {
    findings.push({
      path: ['source', 'paging'],
      why: {
        code: 'PAGE_INFO_UNUSED',
        data: {
          placeholder: '{next}',
          example: 'body: { graphql: …, variables: { after: "{next}" } }',
        },
      },
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
      .map(([path]): PathFinding => ({ path, why: { code: 'XML_PATH_FOR_JSON' } }))
  }
  const findings: PathFinding[] = []
  if (items === undefined) {
    findings.push({ path: ['source', 'xml'], isKey: true, why: { code: 'XML_NEEDS_ITEMS' } })
  }
  const check = (path: Path, given: string, isItems: boolean) => {
    const example = isItems ? '/Envelope/Body/Lista/Articulo' : 'Precio/@moneda'
    try {
      const steps = parseXmlPath(given, xml.namespaces)
      if (!isItems) return
      if (given.startsWith('/') && steps.every((one) => !one.isAttribute && !one.isList)) return
      findings.push({ path, why: { code: 'XML_ITEMS_PATH' } })
    } catch (error) {
      if (!(error instanceof XmlPathError)) throw error
      findings.push({ path, why: error.why, hint: { code: 'FOR_EXAMPLE', data: { example } } })
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
    why: { code: 'CURSOR_UNUSED', data: { parameter, example } },
  }
}

function fileFindings({
  path,
  ready,
}: Extract<Flow['source'], { type: 'file' | 'sftp' }>): PathFinding[] {
  if (ready !== undefined && markerName(ready, path) === basename(path)) {
    const data = { example: '{name}.ok' }
    return [{ path: ['source', 'ready'], why: { code: 'MARKER_IS_FILE', data } }]
  }
  if (!dirname(path).includes('*')) return []
  return [{ path: ['source', 'path'], why: { code: 'STAR_IN_PATH' } }]
}

function deleteFindings({ source, deletes }: Flow): PathFinding[] {
  if (deletes.mode !== 'delete' || !source.type.startsWith('payments.')) return []
  const [, things = ''] = source.type.split('.')
  const data = { type: source.type, things }
  return [{ path: ['deletes', 'mode'], why: { code: 'NEVER_VANISHES', data } }]
}
