import type { Flow } from '../definition/schema.ts'
import { compileExpression } from '../mapping/expression.ts'
import { createKeySet } from '../poll/key-set.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { withParameter } from './http-address.ts'
import type { JsonAnswer } from './http-json.ts'
import { nextLink } from './http-link.ts'
import { kindOf } from './json-items.ts'

type Paging = Extract<Flow['source'], { type: 'http' }>['paging']

export type PagedAnswer = JsonAnswer & { rows: SourceRow[] }

/** The way through the pages of one scan. */
export type PageWalk = {
  /** Address of the first page. */
  first: string
  /**
   * Address of the page after this one; undefined behind the last. Throws SourceError when the pages go round in circles
   * or lead to another origin.
   */
  next(answer: PagedAnswer): Promise<string | undefined>
  /** Whether JSON with status 404 behind the first page means that there are no more. */
  endsBy404: boolean
}

/** Makes the walks of a source. Throws ExpressionError when `paging.next` is no JSONata. */
export function pageWalks(paging: Paging): (url: string) => PageWalk {
  switch (paging.type) {
    case 'none':
      return (url) => ({ first: url, next: async () => undefined, endsBy404: false })
    case 'page': {
      const { param, start, sizeParam, size } = paging
      return (url) => {
        const sized = withSize(url, sizeParam, size)
        const address = (count: { pages: number }) =>
          withParameter(sized, param, start + count.pages)
        return countingWalk(address, size)
      }
    }
    case 'offset': {
      const { param, sizeParam, size } = paging
      return (url) => {
        const sized = withSize(url, sizeParam, size)
        return countingWalk(({ rows }) => withParameter(sized, param, rows), size)
      }
    }
    case 'cursor': {
      const { param, next, sizeParam, size } = paging
      const expression = compileExpression(next)
      return (url) => {
        const first = withSize(url, sizeParam, size)
        return linkedWalk(first, async ({ document }) => {
          const token = tokenText(await expression.evaluate(document))
          return token === undefined ? undefined : withParameter(first, param, token)
        })
      }
    }
    case 'link':
      return (url) => linkedWalk(url, async (answer) => linkTarget(answer, url))
    default:
      return paging satisfies never
  }
}

function withSize(url: string, sizeParam: string | undefined, size: number | undefined): string {
  return sizeParam === undefined || size === undefined ? url : withParameter(url, sizeParam, size)
}

/**
 * Pages by number or by offset end with an empty one, or with one shorter than `size` after a full one. When already the
 * first is shorter, one more is asked for: a server that gives fewer than it was asked for (it may have a limit of its
 * own) would otherwise look as if it had no more.
 */
function countingWalk(
  address: (count: { pages: number; rows: number }) => string,
  size: number | undefined,
): PageWalk {
  const count = { pages: 0, rows: 0 }
  const seen = createKeySet()
  let hadFullPage = false
  return {
    first: address(count),
    endsBy404: true,
    next: async ({ rows }) => {
      if (rows.length === 0) return undefined
      if (!seen.add(JSON.stringify(rows))) {
        throw new SourceError('the same page came twice: does the server know the parameter?')
      }
      const isFull = size === undefined || rows.length >= size
      if (!isFull && hadFullPage) return undefined
      hadFullPage ||= isFull
      count.pages += 1
      count.rows += rows.length
      return address(count)
    },
  }
}

/** Nobody pages that long through nothing; an address that changes every time would never end. */
const maxEmptyPages = 100

/** Pages of which each names the next. An empty one need not be the last. */
function linkedWalk(
  first: string,
  target: (answer: PagedAnswer) => Promise<string | undefined>,
): PageWalk {
  const seen = createKeySet()
  seen.add(first)
  let emptyPages = 0
  return {
    first,
    endsBy404: false,
    next: async (answer) => {
      const url = await target(answer)
      if (url === undefined) return undefined
      if (!seen.add(url)) throw new SourceError('the next page is one that was read already')
      emptyPages = answer.rows.length === 0 ? emptyPages + 1 : 0
      if (emptyPages > maxEmptyPages) {
        throw new SourceError(`more than ${maxEmptyPages} pages in a row without a record`)
      }
      return url
    },
  }
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
