import { apiError } from './errors.ts'
import { oneText } from './form.ts'

type Page = { limit: number; offset: number; filters: Map<string, string> }

/** Reads filters and paging of a list. Throws 400 `INVALID_LIMIT`, `INVALID_OFFSET` or `INVALID_<FILTER>`. */
export function readPage(
  query: unknown,
  names: string[],
  bounds: { limit: number; highest: number },
): Page {
  const filters = new Map<string, string>()
  for (const name of names) {
    if (!Object.hasOwn(Object(query), name)) continue
    const text = oneText(query, name)
    if (text === undefined || text === '') {
      throw apiError(400, `INVALID_${name.toUpperCase()}`, `Invalid ${name}`)
    }
    filters.set(name, text)
  }
  const whole = (name: string, fallback: number, low: number) => {
    if (!Object.hasOwn(Object(query), name)) return fallback
    const text = oneText(query, name) ?? ''
    if (!/^\d{1,9}$/.test(text) || Number(text) < low) {
      throw apiError(400, `INVALID_${name.toUpperCase()}`, `Invalid ${name}`)
    }
    return Number(text)
  }
  return {
    limit: Math.min(bounds.highest, whole('limit', bounds.limit, 1)),
    offset: whole('offset', 0, 0),
    filters,
  }
}

/** Results of a list with their paging. */
export function pageOf(page: Page, results: unknown[]): object {
  return {
    paging: { total: results.length, offset: page.offset, limit: page.limit },
    results: results.slice(page.offset, page.offset + page.limit),
  }
}
