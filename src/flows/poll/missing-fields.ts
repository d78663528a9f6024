import { isDeepStrictEqual } from 'node:util'
import type { FlowStateChange, FlowStateRow } from '../../repositories/flows/flow-state.ts'
import type { Reason } from '../../texts/reason.ts'
import type { Flow } from '../definition/schema.ts'
import type { FlowRuntime, UsedField } from '../item/flow-runtime.ts'
import { compileJsonata } from '../mapping/evaluate-jsonata.ts'
import { isPaymentsSource } from '../sources/open-source.ts'
import { invalidRecordReason, SourceError, type SourceRow } from '../types.ts'

/** What reads found: the largest number of records, and for each used field whether all records had it. */
export type KnownFields = { records: number; fields: Record<string, boolean | null> }

export type FieldWatch = {
  /** Throws SourceError when none of these records has a field that the flow uses. */
  check(rows: readonly SourceRow[]): void
  /** What the poll stores about fields at its end. */
  learned(): Pick<FlowStateChange, 'record_fields' | 'record_fields_form'>
}

/** Records that may differ need this many before they show what all have in common. */
const enough = { least: 3, most: 10 }
const mostNamesShown = 20

/**
 * The fields of its items that a flow uses: as key, in a filter, in a mapping. The cursor field is checked in the
 * records. None of the payment side, whose records are the product's own.
 */
export function usedFieldsOf(flow: Flow): UsedField[] {
  const { item, destinations, source } = flow
  if (isPaymentsSource(source)) return []
  const used = new Map<string, string[]>()
  const add = (usedBy: string, fields: readonly string[]) => {
    for (const field of fields) used.set(field, [...(used.get(field) ?? []), usedBy])
  }
  add('item.key', item.key)
  if (item.filter !== undefined) add('item.filter', itemFields(item.filter))
  for (const [index, { filter, map, fields }] of destinations.entries()) {
    const at = `destinations[${index}]`
    if (filter !== undefined) add(`${at}.filter`, itemFields(filter))
    if (map !== undefined) add(`${at}.map`, itemFields(map))
    for (const rule of Object.values(fields ?? {})) {
      if (typeof rule === 'string') add(`${at}.fields`, [rule])
      else if (!rule.optional) add(`${at}.fields`, [rule.from])
    }
  }
  return [...used].map(([field, usedBy]) => ({ field, usedBy }))
}

/**
 * Checks a read for used fields that no record has any more, for example after a column was renamed: items mapped
 * without them would overwrite destinations. Records of a table all have the same fields. In others (JSON, XML) a
 * field may be absent; it is required only if every earlier record had it, and several at once.
 */
export function watchFields(
  { flow, usedFields, itemForm }: Pick<FlowRuntime, 'flow' | 'usedFields' | 'itemForm'>,
  state: Pick<FlowStateRow, 'record_fields' | 'record_fields_form'>,
): FieldWatch {
  // Result of `learned`. A read of another form may have had other fields.
  const known =
    state.record_fields_form === itemForm ? (state.record_fields as KnownFields | null) : null
  const isTable = recordsAreAlike(flow)
  const needed = Math.min(Math.max(known?.records ?? 0, enough.least), enough.most)
  const partly = new Set<string>()
  let records = 0

  const isMissing = (field: string, count: number) =>
    isTable || (count >= needed && (flow.item.key.includes(field) || known?.fields[field] === true))

  return {
    check(all) {
      if (usedFields.length === 0) return
      const rows = all.filter((row) => invalidRecordReason(row) === undefined)
      const [first] = rows
      if (!first) return
      records += rows.length
      const missing: UsedField[] = []
      for (const one of usedFields) {
        const has = (row: SourceRow) => Object.hasOwn(row, one.field)
        if (isTable ? rows.some(has) : rows.every(has)) continue
        partly.add(one.field)
        if (!rows.some(has) && isMissing(one.field, rows.length)) missing.push(one)
      }
      if (missing.length > 0) throw new SourceError(missingReason(missing, first))
    },
    learned() {
      if (isTable || records < enough.least) return {}
      const fields = usedFields.map(({ field }): [string, boolean] => {
        const before = known && Object.hasOwn(known.fields, field) ? known.fields[field] : null
        return [field, before !== false && !partly.has(field)]
      })
      const now: KnownFields = {
        records: Math.max(known?.records ?? 0, records),
        fields: Object.fromEntries(fields),
      }
      const isSame = isDeepStrictEqual(now, known)
      return isSame ? {} : { record_fields: now, record_fields_form: itemForm }
    },
  }
}

function recordsAreAlike({ source }: Pick<Flow, 'source'>): boolean {
  return (
    source.type === 'sql' || ('format' in source && !['json', 'ndjson'].includes(source.format))
  )
}

function missingReason(missing: readonly UsedField[], record: SourceRow): Reason {
  const fields = missing.map(
    ({ field, usedBy }) => `${JSON.stringify(field)} (${usedBy.join(', ')})`,
  )
  const found = Object.keys(record).slice(0, mostNamesShown).join(', ')
  return { code: 'FIELDS_MISSING', data: { fields: fields.join(', '), found } }
}

type Node = Record<string, unknown> & { type?: unknown; value?: unknown }

/**
 * The item's fields that an expression names. Fields under `$exists` are omitted, because they may be missing. Access by other
 * means, such as `$lookup` or `$each`, is not detected.
 */
export function itemFields(expression: string): string[] {
  const named = new Set<string>()
  const optional = new Set<string>()
  visit(compileJsonata(expression).ast, true, { named, optional })
  return [...named].filter((field) => !optional.has(field))
}

type Found = { named: Set<string>; optional: Set<string> }

/** Names in these parts of a node refer to what the path found and not to the item. */
const aboutFound = new Set(['stages', 'predicate', 'group'])

/** `atItem`: names refer to fields of the item itself. */
function visit(node: unknown, atItem: boolean, found: Found): void {
  if (Array.isArray(node)) {
    for (const one of node) visit(one, atItem, found)
    return
  }
  if (typeof node !== 'object' || node === null || node instanceof RegExp) return
  const one = node as Node
  if (one.type === 'path') {
    visitPath(one, atItem, found)
    return
  }
  if (one.type === 'name' && atItem) found.named.add(String(one.value))
  const asksWhether = (one.procedure as Node | undefined)?.value === 'exists'
  const into = asksWhether ? { ...found, named: found.optional } : found
  for (const [key, part] of Object.entries(one)) {
    visit(part, atItem && !aboutFound.has(key), into)
  }
}

function visitPath(path: Node, atItem: boolean, found: Found): void {
  const [first, second, ...rest] = path.steps as (Node | undefined)[]
  const isItem =
    first?.type === 'variable' && (first.value === '$' || (atItem && first.value === ''))
  visit(first, atItem, found)
  visit(second, isItem, found)
  visit(rest, false, found)
  visit(path.group, false, found)
}
