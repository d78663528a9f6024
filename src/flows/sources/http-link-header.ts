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
