import { hash } from 'node:crypto'
import { canonicalJson } from '../../domain/json.ts'
import { itemVersion } from '../item/item.ts'
import { unendedAfterMs } from './file-source-schema.ts'
import type { Flow } from './schema.ts'

/** Rises when another part of a definition begins to count, or one is written down differently. */
const definitionVersion = 'd1'

type Destination = Flow['destinations'][number]

/**
 * SHA-256 (hex) over the parts of a definition that decide what an item or a body looks like: when one of them changes,
 * every item may look new although nothing happened at the source, and the operator is asked before all of it is sent
 * (`item.onDefinitionChange`).
 *
 * What is left out can change without a question: addresses, secrets, intervals, retry, alerts, deletes, the query (what
 * it brings is the source's word, and a mended condition must not be taken for a rebase), `csv.delimiter` (a file that is cut
 * wrongly has no items). Ways to write the same thing count as the same: order of names that are a set, `a` for
 * `{ from: a }`, blanks around an expression.
 */
export function definitionHash({ item, source, destinations }: Flow): string {
  const { ignore, trim, emptyAsNull, decimals } = item.hash
  const parts = {
    version: [definitionVersion, itemVersion],
    key: item.key,
    hash: { ignore: asSet(ignore), trim, emptyAsNull, decimals },
    filter: item.filter?.trim(),
    groupBy: groupByOf(source),
    csv: csvOf(source),
    form: formOf(source),
    timeZone: source.type === 'sql' ? source.timeZone : undefined,
    destinations: Object.fromEntries(destinations.map((one) => [one.name, mappingOf(one)])),
  }
  return hash('sha256', canonicalJson(parts), 'hex')
}

/**
 * SHA-256 (hex) over the part of a definition that decides how an item looks: how the source is read and what is made of a
 * record, but not how destinations see it. Secrets count as the file has them, a new password changes no item.
 */
export function itemFormHash({ item, source }: Pick<Flow, 'item' | 'source'>): string {
  const { ignore, trim, emptyAsNull, decimals } = item.hash
  const parts = {
    version: [definitionVersion, itemVersion],
    key: item.key,
    hash: { ignore: asSet(ignore), trim, emptyAsNull, decimals },
    // Of a secret it writes the template only.
    source: writtenSource(source),
  }
  return hash('sha256', canonicalJson(parts), 'hex')
}

/** Of a file as when that time could be set, so that the items of before are no others. */
function writtenSource(source: Flow['source']): object {
  if (source.type === 'http') return { ...source, auth: undefined }
  return 'settleMs' in source ? { ...source, unendedAfterMs } : source
}

/**
 * SHA-256 (hex) over the part of a definition that decides under which key an item goes. Under another one every item looks
 * like news.
 */
export function keyFormHash({ item }: Pick<Flow, 'item'>): string {
  const { trim, emptyAsNull } = item.hash
  return hash('sha256', canonicalJson({ key: item.key, trim, emptyAsNull }), 'hex')
}

function groupByOf(source: Flow['source']): Record<string, string[]> | undefined {
  if (!('groupBy' in source) || !source.groupBy) return undefined
  const lists = Object.entries(source.groupBy.children)
  return Object.fromEntries(lists.map(([list, columns]) => [list, asSet(columns)]))
}

function csvOf(source: Flow['source']) {
  if (!('format' in source) || source.format !== 'csv') return undefined
  const { encoding, decimalComma, columns, quotes } = source.csv
  return {
    encoding,
    decimalComma: typeof decimalComma === 'boolean' ? decimalComma : asSet(decimalComma),
    columns,
    quotes,
  }
}

/** The other forms of files and answers; absent where the source has none of them. */
function formOf(source: Flow['source']) {
  if (source.type === 'http') return source.xml
  if (!('format' in source)) return undefined
  if (source.format === 'fixed') {
    const { encoding, columns } = source.fixed ?? {}
    return { encoding, columns }
  }
  return source.format === 'dbf' ? { encoding: source.dbf?.encoding } : undefined
}

function mappingOf(destination: Destination) {
  const filter = destination.filter?.trim()
  // Absent where there is none, as in all definitions of before there were such.
  return { ...requestsOf(destination), ...(filter !== undefined && { filter }) }
}

function requestsOf(destination: Destination) {
  const made = bodyOf(destination)
  if (destination.type !== 'http') return made
  // Absent where no request has one, as in all definitions of before there were such.
  const { request, create } = destination
  const bodies = { request: request.body?.trim(), create: create?.body?.trim() }
  return request.body === undefined && create?.body === undefined ? made : { ...made, bodies }
}

function bodyOf({ map, fields }: Destination) {
  if (map !== undefined) return { map: map.trim() }
  if (fields === undefined) return {}
  const rules = Object.entries(fields).map(([name, rule]) => {
    const { from, type, optional } = typeof rule === 'string' ? { from: rule } : rule
    return [name, { from, type, optional: optional === true }]
  })
  return { fields: Object.fromEntries(rules) }
}

function asSet(names: readonly string[]): string[] {
  return [...new Set(names)].sort()
}
