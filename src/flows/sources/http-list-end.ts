import { isRecord } from '../../domain/json.ts'
import { SourceError } from '../types.ts'
import type { ReadAnswer } from './http-response.ts'
import { valueAtNames } from './json-items.ts'

/** What a list says about the part that was not read with it. */
export type ListEnd = {
  /** The address of the next page, as written. */
  link: string | undefined
  /** It has another page, without an address. */
  hasMore: boolean
  /** How many records it has. */
  total: number | undefined
}

const nextNames = [
  '@odata.nextLink',
  'odata.nextLink',
  'nextLink',
  'next_link',
  'next',
  'next_page',
  'nextPage',
]
const moreNextNames = ['next_page_url', 'nextPageUrl', 'next_url', 'nextUrl']
const tokenNames = [
  'next_cursor',
  'nextCursor',
  'next_page_token',
  'nextPageToken',
  'next_token',
  'nextToken',
]
const moreNames = ['has_more', 'hasMore', 'has_next', 'hasNext', 'has_next_page', 'hasNextPage']
/** Of Spring and Atlassian: true on the last page. */
const lastNames = ['last', 'is_last', 'isLast']
const totalNames = [
  '@odata.count',
  'odata.count',
  'count',
  'total',
  'total_count',
  'totalCount',
  'totalElements',
]
const moreTotalNames = [
  'total_elements',
  'totalItems',
  'total_items',
  'totalRecords',
  'total_records',
  'totalResults',
  'total_results',
]
const containers = [
  'links',
  '_links',
  'paging',
  'pagination',
  'page',
  'meta',
  'pageInfo',
  'page_info',
]
const totalHeaders = ['x-total-count', 'x-total', 'x-wp-total']

/** Reads what a list says about its end: beside the records at `items`, at the top of the document, and in its headers. */
export function listEnd(
  { document, link, headers }: Pick<ReadAnswer, 'document' | 'link' | 'headers'>,
  items: string | undefined,
): ListEnd {
  const places = placesIn(document, items)
  const found = (names: readonly string[]): unknown[] =>
    places.flatMap((place) =>
      names.flatMap((name) => (Object.hasOwn(place, name) ? [place[name]] : [])),
    )
  const flags = [
    ...found(moreNames),
    ...found(lastNames).map((is) => (typeof is === 'boolean' ? !is : is)),
  ]
  const isEnd = flags.includes(false)
  const nexts = [...found(nextNames), ...found(moreNextNames)].map(hrefOf).filter(isGiven)
  const address = nexts.find((next): next is string => typeof next === 'string' && isAddress(next))
  const counts = [
    ...found(totalNames),
    ...found(moreTotalNames),
    ...totalHeaders.map((name) => headers[name]),
  ]
  const totals = counts.map(countIn).filter((count) => count !== undefined)
  return {
    link: nextLink(link) ?? address,
    hasMore:
      !isEnd && (flags.includes(true) || nexts.length > 0 || found(tokenNames).some(isGiven)),
    total: totals.length > 0 ? Math.max(...totals) : undefined,
  }
}

/** The target of a link in the body, within the origin of the source. Throws SourceError for another origin. */
export function sameOrigin(
  given: string,
  { url }: Pick<ReadAnswer, 'url'>,
  source: string,
): string {
  const target = URL.parse(given, url.href)
  if (!target) throw new SourceError({ code: 'NEXT_LINK_NO_ADDRESS' })
  // The headers may contain secrets, which another origin must not receive.
  if (target.origin !== URL.parse(source)?.origin) {
    throw new SourceError({ code: 'NEXT_PAGE_ELSEWHERE', data: { origin: target.origin } })
  }
  target.hash = ''
  return target.href
}

/** The objects around the records, and the objects with links and counts in them. */
function placesIn(document: unknown, items: string | undefined): Record<string, unknown>[] {
  const names = (items ?? '').split('.')
  const around = names.map((_, depth) =>
    valueAtNames(document, names.slice(0, depth).join('.') || undefined),
  )
  const places = around.filter(isRecord)
  const within = places.flatMap((place) => containers.map((name) => place[name]))
  return [...new Set([...places, ...within.filter(isRecord)])]
}

/** HAL and JSON:API write a link as an object. */
function hrefOf(value: unknown): unknown {
  return isRecord(value) ? value.href : value
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && value !== '' && value !== false
}

function isAddress(text: string): boolean {
  return /^(https?:\/\/|[/?])/i.test(text)
}

function countIn(value: unknown): number | undefined {
  const isCount =
    typeof value === 'number' || (typeof value === 'string' && /^\d{1,15}$/.test(value))
  const count = isCount ? Number(value) : -1
  return Number.isSafeInteger(count) && count >= 0 ? count : undefined
}

// RFC 8288, 3: `<target>; name=value; name="quoted"`, several joined by commas.
const link = /<([^>]*)>((?:\s*;\s*[^\s;,="<>]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s",;]*))?)*)/g
const parameter = /;\s*([^\s;,="<>]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?/g

/** The target of `rel="next"` in Link headers, as written; undefined without one. */
export function nextLink(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header.join(', ') : (header ?? '')
  for (const [, target = '', parameters = ''] of text.matchAll(link)) {
    const rel = [...parameters.matchAll(parameter)].find(
      ([, name = '']) => name.toLowerCase() === 'rel',
    )
    const names = (rel?.[2] ?? rel?.[3] ?? '').toLowerCase().split(/\s+/)
    if (names.includes('next')) return target.trim()
  }
  return undefined
}
