import {
  type CompiledQuery,
  type RawBuilder,
  type SelectQueryBuilder,
  type SqlBool,
  sql,
} from 'kysely'
import type { Db } from '../db/database.ts'
import type { Tables } from '../db/tables.ts'
import { type Counted, createCachedCount } from '../domain/cached-count.ts'

/** On which side of an entry the requested ones are, in a list that shows the newest first. */
export type Side = 'older' | 'newer'

/** An entry of a list sorted by time, newest first, then by id. */
export type TimeCursor = { side: Side; at: Date; id: string }

/** An entry of a list sorted by a growing number, highest first. */
export type SequenceCursor = { side: Side; seq: number }

/** The requested part of a list: beside a place, or after so many entries. */
export type PageRequest<Place> = { limit: number; offset: number; place?: Place | undefined }

export type ListPage<Row> = { rows: Row[]; total: number; hasOlder: boolean; hasNewer: boolean }

/**
 * The entries beyond a place. In this form the index of the time column ends the search. A plain "or" reads the list
 * from its start, like an offset. Times are whole milliseconds, as the service writes them.
 */
function beyondTime(place: TimeCursor, timeColumn: string): RawBuilder<SqlBool> {
  const at = sql.ref(timeColumn)
  const id = sql.ref('id')
  return place.side === 'older'
    ? sql`(${at} <= ${place.at} and (${at} < ${place.at} or ${id} > ${place.id}))`
    : sql`(${at} >= ${place.at} and (${at} > ${place.at} or ${id} < ${place.id}))`
}

type List<Table extends keyof Tables> = SelectQueryBuilder<Tables, Table, object>

/** The order in which a page is read: of entries that are newer than a place the nearest come first. */
export function directionsOf({ place }: PageRequest<{ side: Side }>) {
  return place?.side === 'newer'
    ? ({ newest: 'asc', byId: 'desc' } as const)
    : ({ newest: 'desc', byId: 'asc' } as const)
}

/** What `toListPage` needs of a list sorted by time: one entry more than requested, which shows whether there are others beyond. */
export function partByTime<Table extends keyof Tables>(
  list: List<Table>,
  timeColumn: string,
  request: PageRequest<TimeCursor>,
): List<Table> {
  const { place, limit, offset } = request
  const { newest, byId } = directionsOf(request)
  return (place ? list.where(beyondTime(place, timeColumn)) : list)
    .orderBy(sql.ref(timeColumn), newest)
    .orderBy(sql.ref('id'), byId)
    .limit(limit + 1)
    .offset(offset)
}

/** The same of a list sorted by a growing number. */
export function partBySequence<Table extends keyof Tables>(
  list: List<Table>,
  column: string,
  request: PageRequest<SequenceCursor>,
): List<Table> {
  const { place, limit, offset } = request
  const seq = sql.ref(column)
  const isBeyond =
    place?.side === 'newer'
      ? sql<SqlBool>`${seq} > ${place.seq}`
      : sql<SqlBool>`${seq} < ${place?.seq}`
  return (place ? list.where(isBeyond) : list)
    .orderBy(seq, directionsOf(request).newest)
    .limit(limit + 1)
    .offset(offset)
}

/**
 * Makes the page and counts the list. If all entries fit into the page they are not counted again. `table` is the one that is
 * read. `question` identifies the list if its filter contains the current time.
 */
export async function toListPage<Row, Table extends keyof Tables>(
  db: Db,
  table: keyof Tables,
  list: List<Table>,
  found: readonly Row[],
  { limit, offset, place }: PageRequest<{ side: Side }>,
  question: List<Table> = list,
): Promise<ListPage<Row>> {
  const rows = found.slice(0, limit)
  const isCut = found.length > limit
  const isAll = place === undefined && !isCut && (rows.length > 0 || offset === 0)
  const total = isAll ? offset + rows.length : await countEntries(db, table, list, question)
  return place?.side === 'newer'
    ? { rows: rows.reverse(), total, hasOlder: true, hasNewer: isCut }
    : { rows, total, hasOlder: isCut, hasNewer: place !== undefined || offset > 0 }
}

type Counting<T> = () => Promise<Counted<T>>
type SharedCount = { counting: Counting<unknown>; count: () => Promise<unknown> }
type Counts = Map<string, SharedCount>
const countsOf = new WeakMap<Db, Counts>()
/** More questions than users ask at once; the oldest are removed. */
const questionsKept = 200

/** How many entries the list has. */
function countEntries<Table extends keyof Tables>(
  db: Db,
  table: keyof Tables,
  list: List<Table>,
  question: List<Table>,
): Promise<number> {
  const counting = list.select((eb) => [
    eb.fn.countAll<number>().as('total'),
    estimatedRows(table).as('estimate'),
  ])
  const named = question.select((eb) => eb.fn.countAll<number>().as('total')).compile()
  return countSparingly(db, named, async () => {
    const { total, estimate } = await counting.executeTakeFirstOrThrow()
    return { value: total, rows: Math.max(total, estimate ?? 0) }
  })
}

/** The database's recent estimate: a filter may read more rows than it finds. */
export function estimatedRows(table: keyof Tables) {
  return sql<
    number | null
  >`(select reltuples::double precision from pg_class where oid = ${table}::regclass)`
}

/**
 * The count for this question. It is exact if few rows are read, otherwise a little old: pages ask at each refresh,
 * and a count reads the whole list.
 */
export function countSparingly<T>(
  db: Db,
  { sql: text, parameters }: Pick<CompiledQuery, 'sql' | 'parameters'>,
  counting: Counting<T>,
): Promise<T> {
  const question = JSON.stringify([text, parameters])
  const counts: Counts = countsOf.get(db) ?? new Map()
  countsOf.set(db, counts)
  const known = counts.get(question)
  if (known) {
    // The count may depend on the moment, although the question does not.
    known.counting = counting
    // All counts of one question have the same type.
    return known.count() as Promise<T>
  }
  const shared: SharedCount = { counting, count: createCachedCount(() => shared.counting()) }
  counts.set(question, shared)
  const [oldest] = counts.keys()
  if (counts.size > questionsKept && oldest !== undefined) counts.delete(oldest)
  return shared.count() as Promise<T>
}
