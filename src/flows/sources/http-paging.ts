import { createHash } from 'node:crypto'
import { isRecord } from '../../domain/json.ts'
import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import { kindOf } from '../../texts/reason.ts'
import type { Flow } from '../definition/schema.ts'
import { createKeySet } from '../item/key-set.ts'
import { compileExpression } from '../mapping/expression.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { withParameter } from './http-address.ts'
import type { BodyValues } from './http-body.ts'
import { type ListEnd, nextLink, sameOrigin } from './http-list-end.ts'
import type { ReadAnswer } from './http-response.ts'
import { valueAtNames } from './json-items.ts'

type Paging = Extract<Flow['source'], { type: 'http' }>['paging']

type PagedAnswer = ReadAnswer & { rows: SourceRow[]; end: ListEnd }

/** The address of a page and the values for the body's placeholders. */
export type PageAddress = { url: string; values: BodyValues }

/** Goes through the pages of one scan. */
export type PageWalk = {
  first: PageAddress
  /**
   * The next page; undefined after the last; `again` when this page repeats the one before. Throws SourceError when pages
   * repeat or lead to another origin.
   */
  next(answer: PagedAnswer): Promise<PageAddress | 'again' | undefined>
  /** Whether records may move to another page during the scan. */
  mayShift: boolean
  /** Whether a JSON response with status 404 after the first page means that there are no more pages. */
  endsBy404: boolean
}

/** The properties of the source that paging needs. */
type WalkSource = {
  /** Whether the body has this page placeholder. Without one, the page is in the address. */
  hasPlaceholder: (name: 'page' | 'offset' | 'next') => boolean
  items: string | undefined
}

/** Creates the page walks of a source. */
export function pageWalks(
  paging: Paging,
  { hasPlaceholder, items }: WalkSource,
): (url: string) => PageWalk {
  switch (paging.type) {
    // A list that names its next page is read on. Its pages may shift like all others.
    case 'none':
      return (url) => ({
        ...linkedWalk({ url, values: {} }, async (answer) =>
          linkTarget(answer.end.link, answer, url),
        ),
        mayShift: true,
      })
    case 'page': {
      const { param, start, sizeParam, size } = paging
      const place = placing('page', hasPlaceholder('page'), { param, sizeParam, size })
      return (url) => countingWalk(({ pages }) => place(url, start + pages), size)
    }
    case 'offset': {
      const { param, sizeParam, size } = paging
      const place = placing('offset', hasPlaceholder('offset'), { param, sizeParam, size })
      return (url) => countingWalk(({ rows }) => place(url, rows), size)
    }
    case 'cursor': {
      const { param, next, sizeParam, size } = paging
      const expression = compileExpression(next)
      const place = placing('next', hasPlaceholder('next'), { param, sizeParam, size })
      return (url) =>
        linkedWalk(
          place(url, null),
          async ({ document }) => {
            const token = tokenText(await expression.evaluate(document))
            return token === undefined ? undefined : place(url, token)
          },
          { tokenMayStay: true },
        )
    }
    case 'pageInfo': {
      const at = paging.at ?? [...(items ?? '').split('.').slice(0, -1), 'pageInfo'].join('.')
      const page = (url: string, next: string | null) => ({ url, values: { next } })
      return (url) =>
        linkedWalk(page(url, null), async ({ document }) => {
          const token = endCursor(valueAtNames(document, at), at)
          return token === undefined ? undefined : page(url, token)
        })
    }
    case 'link':
      return (url) =>
        linkedWalk({ url, values: {} }, async (answer) =>
          linkTarget(nextLink(answer.link), answer, url),
        )
    default:
      return paging satisfies never
  }
}

/** Creates page addresses: the page goes into a placeholder of the body, else into parameters of the address. */
function placing(
  name: 'page' | 'offset' | 'next',
  isInBody: boolean,
  {
    param,
    sizeParam,
    size,
  }: { param: string; sizeParam?: string | undefined; size?: number | undefined },
): (url: string, value: string | number | null) => PageAddress {
  if (isInBody) return (url, value) => ({ url, values: { [name]: value, size: size ?? null } })
  return (url, value) => {
    const sized = withSize(url, sizeParam, size)
    const values = { size: size ?? null }
    return { url: value === null ? sized : withParameter(sized, param, value), values }
  }
}

/** The end cursor of a GraphQL connection (Relay: Cursor Connections); undefined after the last page. */
function endCursor(info: unknown, at: string): string | undefined {
  if (!isRecord(info) || typeof info.hasNextPage !== 'boolean') {
    throw new SourceError({ code: 'PAGE_INFO_MISSING', data: { place: at } })
  }
  if (!info.hasNextPage) return undefined
  if (typeof info.endCursor === 'string' && info.endCursor !== '') return info.endCursor
  throw new SourceError({ code: 'PAGE_WITHOUT_END_CURSOR', data: { place: at } })
}

function withSize(url: string, sizeParam: string | undefined, size: number | undefined): string {
  return sizeParam === undefined || size === undefined ? url : withParameter(url, sizeParam, size)
}

/** A list of hidden records has no longer run of empty pages. A wrong total costs that many requests. */
const maxEmptyWithin = 20

/**
 * Pages by number or offset end with an empty page, or after more of them when the list says that it has more records. A page shorter than `size` is not the end: a server may filter records or
 * return fewer than requested.
 *
 * Some servers repeat their last page when asked for a later one. A repeated short page after a full page is the end. Any
 * other repeated page is an error: the server may ignore the parameter.
 */
function countingWalk(
  address: (count: { pages: number; rows: number }) => PageAddress,
  size: number | undefined,
): PageWalk {
  const count = { pages: 0, rows: 0 }
  let read = 0
  let emptyPages = 0
  let longest = 0
  const seen = createKeySet()
  let hadFullPage = false
  let last = ''
  return {
    first: address(count),
    mayShift: true,
    endsBy404: true,
    next: async ({ rows, end }) => {
      if (rows.length === 0) {
        emptyPages += 1
        const isWithin = end.total !== undefined && read > 0 && read < end.total
        if (!isWithin || emptyPages > maxEmptyWithin) return undefined
        count.pages += 1
        count.rows += size ?? longest
        return address(count)
      }
      emptyPages = 0
      read += rows.length
      longest = Math.max(longest, rows.length)
      const isFull = size === undefined || rows.length >= size
      const fingerprint = await fingerprintOf(rows)
      if (!seen.add(fingerprint)) {
        if (hadFullPage && !isFull && fingerprint === last) return 'again'
        throw new SourceError({ code: 'SAME_PAGE' })
      }
      last = fingerprint
      hadFullPage ||= isFull
      count.pages += 1
      count.rows += rows.length
      return address(count)
    },
  }
}

/** Equal text for equal values. */
export function textOfRow(row: SourceRow): string {
  return JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? `${value}n` : value))
}

/** Hashes record by record, because a page may have 32 MiB. One hash of the whole text would block the event loop. */
async function fingerprintOf(rows: readonly SourceRow[]): Promise<string> {
  const fingerprint = createHash('sha256')
  for (const row of rows) {
    fingerprint.update(`${textOfRow(row)},`)
    await yieldToEventLoop()
  }
  return fingerprint.digest('hex')
}

/** No server sends that many empty pages in a row. The limit ends a loop in which every address is new. */
const maxEmptyPages = 100

/**
 * Each page names the next page. An empty page may be followed by others. With `tokenMayStay` the token may repeat, as for a
 * search that the server keeps open; then an empty page is the end.
 */
function linkedWalk(
  first: PageAddress,
  target: (answer: PagedAnswer) => Promise<PageAddress | undefined>,
  { tokenMayStay = false } = {},
): PageWalk {
  const seen = createKeySet()
  let last = ''
  seen.add(placeOf(first))
  let emptyPages = 0
  return {
    first,
    mayShift: false,
    endsBy404: false,
    next: async (answer) => {
      const page = await target(answer)
      if (page === undefined) return undefined
      const fingerprint = tokenMayStay ? await fingerprintOf(answer.rows) : ''
      if (!seen.add(placeOf(page))) {
        if (tokenMayStay && answer.rows.length === 0) return undefined
        if (!tokenMayStay || fingerprint === last)
          throw new SourceError({ code: 'PAGE_READ_ALREADY' })
      }
      last = fingerprint
      emptyPages = answer.rows.length === 0 ? emptyPages + 1 : 0
      if (emptyPages > maxEmptyPages) {
        throw new SourceError({ code: 'EMPTY_PAGES', data: { most: maxEmptyPages } })
      }
      return page
    },
  }
}

function placeOf({ url, values }: PageAddress): string {
  return values.next === undefined || values.next === null ? url : `${url} ${values.next}`
}

function tokenText(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '' || value === false) return undefined
  if (typeof value === 'string' || typeof value === 'number') return String(value)
  throw new SourceError({ code: 'NEXT_PAGE_KIND', data: { kind: kindOf(value) } })
}

function linkTarget(
  link: string | undefined,
  answer: PagedAnswer,
  source: string,
): PageAddress | undefined {
  return link === undefined ? undefined : { url: sameOrigin(link, answer, source), values: {} }
}
