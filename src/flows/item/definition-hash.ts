import { hash } from 'node:crypto'
import type { ItemRules } from '../../db/column-types.ts'
import { canonicalJson } from '../../domain/json.ts'
import type { Flow } from '../definition/schema.ts'
import { itemVersion } from './item.ts'

/** Increase it when the hash covers another part of a definition, or covers a part in another form. */
const definitionVersion = 'd3'

type Destination = Flow['destinations'][number]

/** SHA-256 (hex) of the forms of all destinations: of all that determines what is sent. */
export function definitionHash(flow: Flow): string {
  return hash('sha256', canonicalJson(destinationForms(flow)), 'hex')
}

/**
 * The parts of a destination's form, in its order. `key`: what identifies an item. `item`: which items there are, and what they
 * are. `body`: what becomes of
 * an item. `requests`: how it is sent. `deletes`: whether and how what is missing is deleted.
 */
const formParts = ['key', 'item', 'body', 'requests', 'deletes'] as const
export type FormPart = (typeof formParts)[number]

/**
 * By destination, its form: digests of the parts of a definition that determine what is sent there, with a slash between them.
 * When one changes, items may differ from what was delivered without a change at the source, and an operator is asked
 * (`item.onDefinitionChange`).
 *
 * Other parts may change without a question: addresses, secrets, intervals, retry, alerts, the query and `csv.delimiter`. The
 * query's result counts as the source's data: a corrected condition needs no approval. With a wrong delimiter there are no
 * items.
 *
 * Equal meanings give equal digests: the order in a set of names, `a` for `{ from: a }`, blanks around an expression.
 */
export function destinationForms(
  flow: Pick<Flow, 'item' | 'source' | 'deletes' | 'destinations'>,
): Record<string, string> {
  const { item, source, deletes } = flow
  const { ignore, trim, emptyAsNull, decimals } = item.hash
  const ofKey = digest({ version: definitionVersion, key: item.key, trim, emptyAsNull })
  const ofItem = digest({
    version: [definitionVersion, itemVersion],
    hash: { ignore: asSet(ignore), trim, emptyAsNull, decimals },
    filter: item.filter?.trim(),
    groupBy: groupByOf(source),
    csv: csvOf(source),
    form: formOf(source),
    timeZone: source.type === 'sql' ? source.timeZone : undefined,
  })
  const formOfOne = (one: Destination) => {
    const body = digest({ ...bodyOf(one), filter: one.filter?.trim() })
    const ofDeletes = digest({ mode: deletes.mode, delete: deleteOf(one) })
    return [ofKey, ofItem, body, digest(requestsOf(one)), ofDeletes].join('/')
  }
  return Object.fromEntries(flow.destinations.map((one) => [one.name, formOfOne(one)]))
}

/** The parts in which two forms of a destination differ. */
export function changedParts(before: string, now: string): Set<FormPart> {
  const was = before.split('/')
  return new Set(formParts.filter((_, index) => was[index] !== now.split('/')[index]))
}

/** 16 bytes in base64url. */
function digest(parts: object): string {
  return hash('sha256', canonicalJson(parts), 'base64url').slice(0, 22)
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

/** The source without `auth`, which changes no item. */
function writtenSource(source: Flow['source']): object {
  return source.type === 'http' ? { ...source, auth: undefined } : source
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

function requestsOf(destination: Destination): object {
  if (destination.type === 'sql') return { upsertKey: asSet(destination.upsertKey) }
  if (destination.type !== 'http') return {}
  const { request, create, batch, remember } = destination
  const bodies = {
    request: request.body?.trim(),
    parts: request.parts?.map((part) => part.trim()),
    create: create?.body?.trim(),
    batch: batch?.body?.trim(),
  }
  return { remember, bodies }
}

function deleteOf(destination: Destination): string | undefined {
  if (destination.type !== 'http' || !destination.delete) return undefined
  return 'body' in destination.delete ? destination.delete.body?.trim() : undefined
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
