import { hash } from 'node:crypto'
import type { ItemRules } from '../../db/tables.ts'
import { canonicalJson } from '../../domain/json.ts'
import { itemVersion } from '../item/item.ts'
import { unendedAfterMs } from './file-source-schema.ts'
import type { Flow } from './schema.ts'

/** Increase it when the hash covers another part of a definition, or covers a part in another form. */
const definitionVersion = 'd2'

type Destination = Flow['destinations'][number]

/**
 * SHA-256 (hex) of the forms of all destinations. When one changes, every item may look changed without a change at the
 * source. Then the operator must approve before all of it is sent (`item.onDefinitionChange`).
 */
export function definitionHash(flow: Flow): string {
  return hash('sha256', canonicalJson(destinationForms(flow)), 'hex')
}

/**
 * By destination, a SHA-256 (hex) of the parts of a definition that determine what is sent there: the item, and the
 * destination's mapping, filter and requests.
 *
 * Other parts may change without approval: addresses, secrets, intervals, retry, alerts, the query and `csv.delimiter`. The
 * query's result counts as the source's data: a corrected condition needs no approval. With a wrong delimiter there are no
 * items.
 *
 * Equal meanings give equal hashes: the order in a set of names, `a` for `{ from: a }`, blanks around an expression.
 */
export function destinationForms({
  item,
  source,
  destinations,
}: Pick<Flow, 'item' | 'source' | 'destinations'>): Record<string, string> {
  const { ignore, trim, emptyAsNull, decimals } = item.hash
  const ofItem = {
    version: [definitionVersion, itemVersion],
    key: item.key,
    hash: { ignore: asSet(ignore), trim, emptyAsNull, decimals },
    filter: item.filter?.trim(),
    groupBy: groupByOf(source),
    csv: csvOf(source),
    form: formOf(source),
    timeZone: source.type === 'sql' ? source.timeZone : undefined,
  }
  const formOfOne = (one: Destination) =>
    hash('sha256', canonicalJson({ ...ofItem, destination: requestsOf(one) }), 'hex')
  return Object.fromEntries(destinations.map((one) => [one.name, formOfOne(one)]))
}

/**
 * SHA-256 (hex) of the parts of a definition that determine an item: reading the source and converting a record, but no
 * mappings. Secrets count by their references, because a new password changes no item.
 */
export function itemFormHash({ item, source }: Pick<Flow, 'item' | 'source'>): string {
  const { ignore, trim, emptyAsNull, decimals } = item.hash
  const parts = {
    version: [definitionVersion, itemVersion],
    key: item.key,
    hash: { ignore: asSet(ignore), trim, emptyAsNull, decimals },
    // Writes only the template of a secret.
    source: writtenSource(source),
  }
  return hash('sha256', canonicalJson(parts), 'hex')
}

/**
 * The source without `auth`, which changes no item. A file source includes the former setting `unendedAfterMs`, so that
 * earlier hashes stay valid.
 */
function writtenSource(source: Flow['source']): object {
  if (source.type === 'http') return { ...source, auth: undefined }
  return 'settleMs' in source ? { ...source, unendedAfterMs } : source
}

/** The rules that keys and hashes of items are made by. */
export function itemRulesOf({ item, source }: Pick<Flow, 'item' | 'source'>): ItemRules {
  const read = { version: [definitionVersion, itemVersion], source: writtenSource(source) }
  return { source: hash('sha256', canonicalJson(read), 'hex'), key: item.key, hash: item.hash }
}

/** SHA-256 (hex) of the parts of a definition that determine an item's key. With another key every item looks new. */
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

/** Options of the other file and response formats; undefined when the source has none. */
function formOf(source: Flow['source']) {
  if (source.type === 'http') return source.xml
  if (!('format' in source)) return undefined
  if (source.format === 'fixed') {
    const { encoding, columns } = source.fixed ?? {}
    return { encoding, columns }
  }
  return source.format === 'dbf' ? { encoding: source.dbf?.encoding } : undefined
}

function requestsOf(destination: Destination) {
  const made = { ...bodyOf(destination), filter: destination.filter?.trim() }
  if (destination.type === 'sql') return { ...made, upsertKey: asSet(destination.upsertKey) }
  if (destination.type !== 'http') return made
  const { request, create, batch, delete: remove, remember } = destination
  const bodies = {
    request: request.body?.trim(),
    create: create?.body?.trim(),
    delete: remove && 'body' in remove ? remove.body?.trim() : undefined,
    batch: batch?.body?.trim(),
  }
  return { ...made, remember, bodies }
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
