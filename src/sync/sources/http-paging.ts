import { createHash } from 'node:crypto'
import type { Flow } from '../definition/schema.ts'
import { compileExpression } from '../mapping/expression.ts'
import { breathe } from '../poll/breather.ts'
import { createKeySet } from '../poll/key-set.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { withParameter } from './http-address.ts'
import type { ReadAnswer } from './http-answer.ts'
import type { BodyValues } from './http-body.ts'
import { nextLink } from './http-link.ts'
import { isRecord, kindOf, valueAt } from './json-items.ts'

type Paging = Extract<Flow['source'], { type: 'http' }>['paging']

export type PagedAnswer = ReadAnswer & { rows: SourceRow[] }

/** Where a page is read: at an address, and by what is filled into the body. */
export type PageAddress = { url: string; values: BodyValues }

/** The way through the pages of one scan. */
export type PageWalk = {
  first: PageAddress
  /**
   * The page after this one; undefined behind the last, and `again` where this one is the page before it once more. Throws
   * SourceError when the pages go round in circles or lead to another origin.
   */
  next(answer: PagedAnswer): Promise<PageAddress | 'again' | undefined>
  /** Whether records may move from one page to another while the pages are read. */
  mayShift: boolean
  /** Whether JSON with status 404 behind the first page means that there are no more. */
  endsBy404: boolean
}

/** What the walks need to know of the source. */
type WalkSource = {
  /** The placeholder of the body that says which page is meant; without one the address says it. */
  hasPlaceholder: (name: 'page' | 'offset' | 'next') => boolean
  items: string | undefined
}

/** Makes the walks of a source. Throws ExpressionError when `paging.next` is no JSONata. */
export function pageWalks(
  paging: Paging,
  { hasPlaceholder, items }: WalkSource,
): (url: string) => PageWalk {
  switch (paging.type) {
    case 'none':
      return (url) => ({
        first: { url, values: {} },
        next: async () => undefined,
        mayShift: false,
        endsBy404: false,
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
          const token = endCursor(valueAt(document, at), at)
          return token === undefined ? undefined : page(url, token)
        })
    }
    case 'link':
      return (url) =>
        linkedWalk({ url, values: {} }, async (answer) => {
          const target = linkTarget(answer, url)
          return target === undefined ? undefined : { url: target, values: {} }
        })
    default:
      return paging satisfies never
  }
}

/** Makes the addresses of pages, by what the body is filled with or else by parameters of the address. */
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

/** Of a connection of GraphQL (Relay: Cursor Connections); undefined behind the last page. */
function endCursor(info: unknown, at: string): string | undefined {
  if (!isRecord(info) || typeof info.hasNextPage !== 'boolean') {
    throw new SourceError(
      `${at} has no hasNextPage; the query must ask for hasNextPage and endCursor`,
    )
  }
  if (!info.hasNextPage) return undefined
  if (typeof info.endCursor === 'string' && info.endCursor !== '') return info.endCursor
  throw new SourceError(`${at} says that there is another page, but has no endCursor`)
}

function withSize(url: string, sizeParam: string | undefined, size: number | undefined): string {
  return sizeParam === undefined || size === undefined ? url : withParameter(url, sizeParam, size)
}

/**
 * Pages by number or by offset end with an empty one. A page shorter than `size` is not the end: a server may leave out what it
 * hides, or give fewer than it was asked for. Some servers give their last page again when asked for one behind it: after full
 * pages that is the end, else the server may not know the parameter.
 */
function countingWalk(
  address: (count: { pages: number; rows: number }) => PageAddress,
  size: number | undefined,
): PageWalk {
  const count = { pages: 0, rows: 0 }
  const seen = createKeySet()
  let hadFullPage = false
  let last = ''
  return {
    first: address(count),
    mayShift: true,
    endsBy404: true,
    next: async ({ rows }) => {
      if (rows.length === 0) return undefined
      const isFull = size === undefined || rows.length >= size
      const fingerprint = await fingerprintOf(rows)
      if (!seen.add(fingerprint)) {
        if (hadFullPage && !isFull && fingerprint === last) return 'again'
        throw new SourceError('the same page came twice: does the server know the parameter?')
      }
      last = fingerprint
      hadFullPage ||= isFull
      count.pages += 1
      count.rows += rows.length
      return address(count)
    },
  }
}

/** The same for the same values. */
export function textOfRow(row: SourceRow): string {
  return JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? `${value}n` : value))
}

/** A page may have 32 MiB: as one text it would be a long stretch of work. */
async function fingerprintOf(rows: readonly SourceRow[]): Promise<string> {
  const fingerprint = createHash('sha256')
  for (const row of rows) {
    fingerprint.update(`${textOfRow(row)},`)
    await breathe()
  }
  return fingerprint.digest('hex')
}

/** Nobody pages that long through nothing; an address that changes every time would never end. */
const maxEmptyPages = 100

/**
 * Pages of which each names the next. An empty one need not be the last. With `tokenMayStay` the token may be the same each time, as
 * that of a search that the server keeps open: then other records come for it until a page is empty.
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
          throw new SourceError('the next page is one that was read already')
      }
      last = fingerprint
      emptyPages = answer.rows.length === 0 ? emptyPages + 1 : 0
      if (emptyPages > maxEmptyPages) {
        throw new SourceError(`more than ${maxEmptyPages} pages in a row without a record`)
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
  throw new SourceError(`paging.next gives ${kindOf(value)}, not a text or a number`)
}

function linkTarget({ link, url }: PagedAnswer, source: string): string | undefined {
  const given = nextLink(link)
  if (given === undefined) return undefined
  const target = URL.parse(given, url.href)
  if (!target) throw new SourceError('the link to the next page is no address')
  // Headers may carry secrets, and they would go there.
  if (target.origin !== URL.parse(source)?.origin) {
    throw new SourceError(
      `the next page is at another origin (${target.origin}), which is not called`,
    )
  }
  target.hash = ''
  return target.href
}
