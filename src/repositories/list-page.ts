import {
  type CompiledQuery,
  type RawBuilder,
  type SelectQueryBuilder,
  type SqlBool,
  sql,
} from 'kysely'
import type { Db } from '../db/database.ts'
import type { Tables } from '../db/tables.ts'
import { type Counted, createSparing } from '../domain/sparing.ts'

/** On which side of an entry the wanted ones are, in a list that shows the newest first. */
export type Side = 'older' | 'newer'

/** An entry of a list sorted by time, newest first, and among equal times by id. */
export type TimePlace = { side: Side; at: Date; id: string }

/** An entry of a list sorted by a number that grows, highest first. */
export type SequencePlace = { side: Side; seq: number }

/** Which part of a list is wanted: beside a place, or after so many entries. */
export type PageWish<Place> = { limit: number; offset: number; place?: Place | undefined }

export type ListPage<Row> = { rows: Row[]; total: number; hasOlder: boolean; hasNewer: boolean }

/**
 * The entries beyond a place. Written so that the index of the time column ends the search: a plain "or" reads the list from
 * its beginning, as an offset does. Times are whole milliseconds, as the service writes them.
 */
export function beyondTime(place: TimePlace, timeColumn: string): RawBuilder<SqlBool> {
  const at = sql.ref(timeColumn)
  const id = sql.ref('id')
  return place.side === 'older'
    ? sql`(${at} <= ${place.at} and (${at} < ${place.at} or ${id} > ${place.id}))`
    : sql`(${at} >= ${place.at} and (${at} > ${place.at} or ${id} < ${place.id}))`
}

/** How far `find` is to read: one entry more than wanted, which tells whether there are others beyond. */
export function reachOf({ limit }: { limit: number }): number {
  return limit + 1
}

/**
 * The page made of what was found from the place on, be it read towards the older or the newer ones, and how many entries the
 * list has. What fits into the page is not counted again. `question` names the list where it changes with each moment.
 */
export async function toListPage<Row, Table extends keyof Tables>(
  db: Db,
  table: Table,
  list: SelectQueryBuilder<Tables, Table, object>,
  found: readonly Row[],
  { limit, offset, place }: PageWish<{ side: Side }>,
  question: SelectQueryBuilder<Tables, Table, object> = list,
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
type Asked = { counting: Counting<unknown>; count: () => Promise<unknown> }
type Counts = Map<string, Asked>
const countsOf = new WeakMap<Db, Counts>()
/** More questions than people ask at once; the oldest are forgotten. */
const questionsKept = 200

/** How many entries the list has. */
function countEntries<Table extends keyof Tables>(
  db: Db,
  table: Table,
  list: SelectQueryBuilder<Tables, Table, object>,
  question: SelectQueryBuilder<Tables, Table, object>,
): Promise<number> {
  const counting = list.select((eb) => [
    eb.fn.countAll<number>().as('total'),
    rowsHeld(table).as('held'),
  ])
  const named = question.select((eb) => eb.fn.countAll<number>().as('total')).compile()
  return countSparingly(db, named, async () => {
    const { total, held } = await counting.executeTakeFirstOrThrow()
    return { value: total, rows: Math.max(total, held ?? 0) }
  })
}

/** As the database guessed lately: what a filter makes it read is more than what it finds. */
export function rowsHeld(table: keyof Tables) {
  return sql<
    number | null
  >`(select reltuples::double precision from pg_class where oid = ${table}::regclass)`
}

/**
 * What `counting` answers to this question: as it is at this moment while it reads little, else as it was a little before,
 * since pages ask with every look and counting reads the whole list.
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
    // What is counted may depend on the moment, where the question does not.
    known.counting = counting
    // One question has one kind of answer.
    return known.count() as Promise<T>
  }
  const asked: Asked = { counting, count: createSparing(() => asked.counting()) }
  counts.set(question, asked)
  const [oldest] = counts.keys()
  if (counts.size > questionsKept && oldest !== undefined) counts.delete(oldest)
  return asked.count() as Promise<T>
}
