import { z } from 'zod'
import { invalid } from '../errors/app-error.ts'
import { fieldMessage } from '../errors/field-reasons.ts'
import type {
  ListPage,
  PageRequest,
  SequenceCursor,
  Side,
  TimeCursor,
} from '../repositories/list-page.ts'

const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
/** Enough digits for the milliseconds of any date in the database. */
const timeCursor = new RegExp(`^(older|newer)\\.(\\d{1,14})\\.(${uuid})$`)
const sequenceCursor = /^(older|newer)\.(\d{1,15})$/

const queryCursor = (shape: RegExp) =>
  z
    .string()
    .regex(shape, fieldMessage({ code: 'CURSOR_UNKNOWN' }))
    .optional()
    .describe(
      'The page beside an earlier one: its `next_cursor` or `previous_cursor`. Unlike an offset it costs the same however far back, and no entry is repeated or left out when others come meanwhile. Not together with `offset`',
    )

/** For lists sorted by time. */
export const queryTimeCursor = () => queryCursor(timeCursor)
/** For lists sorted by a number. */
export const querySequenceCursor = () => queryCursor(sequenceCursor)

/** The fields of a list's response about its total and the neighbouring pages. */
export const pageFields = {
  total: z
    .number()
    .describe('How many entries fit the query. Of more than 10,000 as it was a few seconds ago'),
  next_cursor: z.string().optional().describe('For the older entries; absent when there are none'),
  previous_cursor: z
    .string()
    .optional()
    .describe('For the newer entries; absent on the page that begins with the newest'),
}

type PageQuery = { limit: number; offset?: number; cursor?: string | undefined }

/**
 * The page that a validated query asks for.
 *
 * @throws VALIDATION_ERROR for a cursor with an offset
 */
export function timePageOf(query: PageQuery): PageRequest<TimeCursor> {
  const [, side, at, id] = timeCursor.exec(query.cursor ?? '') ?? []
  return queryOf(
    query,
    id === undefined ? undefined : { side: side as Side, at: new Date(Number(at)), id },
  )
}

/** The same for a list sorted by a number. */
export function sequencePageOf(query: PageQuery): PageRequest<SequenceCursor> {
  const [, side, seq] = sequenceCursor.exec(query.cursor ?? '') ?? []
  return queryOf(query, seq === undefined ? undefined : { side: side as Side, seq: Number(seq) })
}

function queryOf<Place>({ limit, offset = 0 }: PageQuery, place: Place | undefined) {
  if (place !== undefined && offset > 0) throw invalid('cursor', { code: 'CURSOR_AND_OFFSET' })
  return { limit, offset, place }
}

/** The cursors of a page. `place` returns the position of an entry, as `<time>.<id>` or a number. */
export function cursorsOf<Row>(page: ListPage<Row>, place: (row: Row) => string) {
  const first = page.rows[0]
  const last = page.rows.at(-1)
  return {
    ...(page.hasOlder && last && { next_cursor: `older.${place(last)}` }),
    ...(page.hasNewer && first && { previous_cursor: `newer.${place(first)}` }),
  }
}

/** The position of an entry in a list sorted by time. */
export function timePlace(at: Date, id: string): string {
  return `${at.getTime()}.${id}`
}
