import { isDeepStrictEqual } from 'node:util'
import type { Flow } from '../definition/schema.ts'
import { shorten } from '../mapping/excerpt.ts'
import { invalidRecord, invalidRecordReason, SourceError, type SourceRow } from '../types.ts'
import type { FlowRuntime, GroupBy } from './flow-runtime.ts'
import { joinKey, keyText } from './item.ts'

type Rules = Pick<Flow, 'item'> & { source: { groupBy?: GroupBy | undefined } }
/** Limit of records in memory for one item. More records with the same key mean that the key is wrong. */
const maxRecordsOfOneKey = 100_000

/** Where the records or groups of a file begin. */
export type FileStart = { name: string; before: number }
/** Where the files begin in the records that are read (`rowFiles`), and in the groups made of them (`groupFiles`). */
type Files = { rowFiles: readonly FileStart[]; groupFiles: FileStart[] }
const noFiles: Files = { rowFiles: [], groupFiles: [] }

/**
 * Combines consecutive records of one key into one record with lists, as `source.groupBy` says. Without `groupBy` batches pass
 * unchanged.
 *
 * - An entry whose columns are all null (an outer join without a match) is omitted. Equal entries of a list are combined.
 * - Records with one key that differ in a column outside `item.hash.ignore` are an error, because none of them is known to be
 *   right.
 * - An invalid record fails the poll. It may belong to the item before or after it, which would be sent incomplete.
 * - A group ends with its file. The next file is older and has an earlier state of the item.
 */
export async function* groupRows(
  rules: Rules,
  batches: AsyncIterable<SourceRow[]>,
  { rowFiles, groupFiles }: Files = noFiles,
): AsyncGenerator<SourceRow[]> {
  const { groupBy } = rules.source
  if (!groupBy) return yield* batches
  const lists = Object.entries(groupBy.children)
  const childColumns = new Set(lists.flatMap(([, columns]) => columns))
  // The key may differ in form, as a number in one record and text in the next.
  const apart = new Set([...childColumns, ...rules.item.hash.ignore, ...rules.item.key])

  let open: Group | undefined
  let records = 0
  let groups = 0
  /** Whether the file of the next record is another than the one before; an empty file has no record. */
  const beginsFile = (recordsBefore: number): boolean => {
    const known = groupFiles.length
    let next = rowFiles[known]
    while (next && next.before <= recordsBefore) {
      groupFiles.push({ name: next.name, before: groups })
      next = rowFiles[groupFiles.length]
    }
    return groupFiles.length > known
  }
  const isOfKey = (row: SourceRow, first: SourceRow) =>
    rules.item.key.every((name) => isSameKey(row[name], first[name]))
  const contradiction = (row: SourceRow, first: SourceRow) =>
    Object.keys(row).find((name) => !apart.has(name) && !isSame(row[name], first[name]))
  const close = (group: Group) =>
    group.differs === undefined
      ? itemOf(group, lists, childColumns)
      : Object.assign(
          keyFieldsOf(rules, group.first),
          invalidRecord({
            code: 'GROUP_DIFFERS',
            data: { pk: shownKey(rules, group.first), field: group.differs },
          }),
        )

  for await (const batch of batches) {
    const done: SourceRow[] = []
    for (const row of batch) {
      const refused = invalidRecordReason(row)
      if (refused !== undefined) {
        throw new SourceError({ code: 'GROUP_WITH_NO_RECORD', data: { what: refused } })
      }
      const isNewFile = beginsFile(records)
      records += 1
      if (!open || isNewFile || !isOfKey(row, open.first)) {
        if (open) done.push(close(open))
        groups += 1
        open = { first: row, records: 0, lists: lists.map(([, columns]) => createList(columns)) }
      }
      open.differs ??= contradiction(row, open.first)
      if (++open.records > maxRecordsOfOneKey) {
        throw new SourceError({ code: 'GROUP_TOO_LARGE', data: { most: maxRecordsOfOneKey } })
      }
      for (const list of open.lists) list.add(row)
    }
    if (done.length > 0) yield done
  }
  if (open) yield [close(open)]
}

/** Beyond this number a full read costs the source less. */
const mostReadsByKey = 100

/**
 * The records of a source with `groupBy`, one for each item. An incremental read (`since`) has only the changed
 * records, so it reads each item again by key.
 */
export async function* groupedRecords(
  runtime: GroupedFlow,
  batches: AsyncIterable<SourceRow[]>,
  { since, signal, ...files }: { since: string | null; signal: AbortSignal } & Files,
): AsyncGenerator<SourceRow[]> {
  const { source, read, flow, groupBy } = runtime
  const rules = { item: flow.item, source: { groupBy } }
  if (since === null) return yield* groupRows(rules, batches, files)
  const keys = new Map<string, readonly string[]>()
  const pkOf = async (row: SourceRow): Promise<string | null> => {
    const found = await read(row)
    if ('problem' in found) return found.problem.pk
    return 'item' in found ? found.item.pk : found.pk
  }
  for await (const rows of batches) {
    for (const row of rows) {
      const pk = await pkOf(row)
      // As the source has it: the key of the item may lack blanks.
      const key = flow.item.key.map((name) => keyText(row[name]))
      if (pk !== null && key.every((text) => text !== null)) keys.set(pk, key)
      else yield [row]
    }
  }
  if (keys.size > mostReadsByKey) {
    const all = source.scan({ since: null, signal })
    for await (const rows of groupRows(rules, all)) {
      const pks = await Promise.all(rows.map(pkOf))
      yield rows.filter((_, index) => pks[index] === null || keys.has(pks[index] ?? ''))
    }
    return
  }
  for (const key of keys.values()) yield groupAll(rules, await source.readItem({ key, signal }))
}

type GroupedFlow = Pick<FlowRuntime, 'source' | 'read' | 'flow' | 'groupBy'>

/** Like groupRows, for all records of one item. */
export async function groupAll(rules: Rules, rows: SourceRow[]): Promise<SourceRow[]> {
  const all: SourceRow[] = []
  for await (const batch of groupRows(rules, oneBatch(rows))) all.push(...batch)
  return all
}

async function* oneBatch(rows: SourceRow[]): AsyncGenerator<SourceRow[]> {
  yield rows
}

type Group = {
  first: SourceRow
  records: number
  /** A column in which the records of the item differ. */
  differs?: string | undefined
  lists: ReturnType<typeof createList>[]
}

function keyFieldsOf({ item }: Rules, row: SourceRow): SourceRow {
  return Object.fromEntries(item.key.map((name) => [name, row[name]]))
}

function shownKey({ item }: Rules, row: SourceRow): string {
  return shorten(joinKey(item.key.map((name) => String(row[name]))))
}

function isSameKey(left: unknown, right: unknown): boolean {
  const text = keyText(left)
  return text === null ? isSame(left, right) : text === keyText(right)
}

function itemOf(
  group: Group,
  lists: [string, readonly string[]][],
  childColumns: ReadonlySet<string>,
): SourceRow {
  const row: SourceRow = {}
  for (const name of Object.keys(group.first)) {
    if (!childColumns.has(name)) row[name] = group.first[name]
  }
  for (const [index, [name]] of lists.entries()) row[name] = group.lists[index]?.entries
  return row
}

function createList(columns: readonly string[]) {
  const entries: SourceRow[] = []
  const known = new Set<string>()
  return {
    entries,
    add: (row: SourceRow) => {
      const values = columns.map((name) => row[name])
      if (values.every((value) => value === null || value === undefined)) return
      const text = JSON.stringify(values, (_, value) =>
        typeof value === 'bigint' ? `${value}n` : value,
      )
      if (known.has(text)) return
      known.add(text)
      entries.push(Object.fromEntries(columns.map((name) => [name, row[name]])))
    },
  }
}

function isSame(left: unknown, right: unknown): boolean {
  if (left === right) return true
  return typeof left === 'object' && typeof right === 'object' && isDeepStrictEqual(left, right)
}
