/**
 * The page's state in the address, behind the hash: `#/orders/<id>?client=x&status=failed`. So reload, back and a link
 * sent to a colleague work. Tokens never go there.
 */

/** `{ name, id, query }` of the present address. */
export function currentRoute() {
  const [path = '', search = ''] = location.hash.replace(/^#\/?/, '').split('?', 2)
  const [name = '', id] = path.split('/', 2)
  return {
    name: name || 'overview',
    id: id === undefined ? undefined : decode(id),
    query: Object.fromEntries(new URLSearchParams(search)),
  }
}

/** The address of a view. Empty values are left out. */
export function href(name, id, query = {}) {
  const search = new URLSearchParams(
    Object.entries(query).filter(([, value]) => value !== undefined && value !== ''),
  ).toString()
  const path = id === undefined ? name : `${name}/${encodeURIComponent(id)}`
  return `#/${path}${search && `?${search}`}`
}

function decode(text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
