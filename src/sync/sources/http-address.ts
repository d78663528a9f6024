import { SourceError } from '../types.ts'

/**
 * Fills `{name}` placeholders into an address, percent-encoded. Throws SourceError for a value that would change the
 * path: a segment of one or two dots is resolved by every client, encoded or not.
 */
export function fillAddress(template: string, values: Readonly<Record<string, string>>): string {
  const url = template.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    if (value === undefined) return whole
    if (!value.isWellFormed()) throw new SourceError(`{${name}} holds broken Unicode`)
    return encodeURIComponent(value)
  })
  const path = url.split(/[?#]/, 1)[0] ?? ''
  if (path.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw new SourceError('a value cannot stand in the path of the address (. or ..)')
  }
  return url
}

/** Throws SourceError when the host would depend on what is filled in, or the template asks for what there is not. */
export function checkAddress(template: string, names: readonly string[]): void {
  const filled = (text: string) =>
    fillAddress(template, Object.fromEntries(names.map((name) => [name, text])))
  if (/\{\w+\}/.test(filled('a'))) {
    throw new SourceError('the url has {cursor}, but the source has no cursor')
  }
  const origin = (text: string) => URL.parse(filled(text))?.origin
  if (origin('a') === undefined || origin('a') !== origin('b')) {
    throw new SourceError('the host of an address must not depend on what is filled in')
  }
}

/**
 * The address with this one parameter set. The rest of its query stays as it is written: not every server takes what is
 * equal in theory, such as a plus for a blank.
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
