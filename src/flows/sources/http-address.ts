import { hasDots } from '../net/path-segments.ts'
import { SourceError } from '../types.ts'

/**
 * Fills `{name}` placeholders into an address, percent-encoded. Throws SourceError for the values `.` and `..`: every client
 * resolves such path segments, encoded or not.
 */
export function fillAddress(
  template: string,
  values: Readonly<Record<string, string>>,
  staysBelow: boolean,
): string {
  const url = template.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    if (value === undefined) return whole
    if (!value.isWellFormed())
      throw new SourceError({ code: 'BROKEN_UNICODE', data: { name: `{${name}}` } })
    return encodeURIComponent(value)
  })
  const path = url.split(/[?#]/, 1)[0] ?? ''
  const hasDotSegment = path.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))
  if (hasDotSegment || (staysBelow && hasDots(path))) {
    throw new SourceError({ code: 'PATH_VALUE' })
  }
  return url
}

/**
 * Sets one parameter of the address. The rest of the query stays as written, because some servers distinguish equal spellings,
 * such as a plus and a space.
 */
export function withParameter(url: string, name: string, value: string | number): string {
  const [address = '', ...rest] = (url.split('#', 1)[0] ?? '').split('?')
  const parts = rest
    .join('?')
    .split('&')
    .filter((part) => part !== '' && nameOf(part) !== name)
  return `${address}?${[...parts, `${encodeURIComponent(name)}=${encodeURIComponent(value)}`].join('&')}`
}

function nameOf(part: string): string {
  const name = (part.split('=', 1)[0] ?? '').replaceAll('+', ' ')
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}
