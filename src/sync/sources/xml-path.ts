export type XmlAttribute = { local: string; uri: string; value: string }

export type XmlElement = {
  local: string
  uri: string
  attributes: XmlAttribute[]
  children: XmlElement[]
  /** All of its own, without that of its children. */
  text: string
}

/** `uri` is absent where any namespace will do; `isList` takes all that are found. */
export type XmlStep = { local: string; uri?: string; isAttribute: boolean; isList: boolean }

const step = /^(@?)(?:([\p{L}_][\p{L}\p{N}_.-]*):)?(\*|[\p{L}_][\p{L}\p{N}_.-]*)(\[\])?$/u
const instance = 'http://www.w3.org/2001/XMLSchema-instance'

/** Why a path cannot be read; `message` follows its key: `has a step that is no name: …`. */
export class XmlPathError extends Error {}

/**
 * The steps of a path: names of elements with slashes between, the last one perhaps an attribute (`@id`), or all that are there
 * (`Ean[]`). A dot is the element itself. Throws XmlPathError.
 */
export function parseXmlPath(
  path: string,
  namespaces: Readonly<Record<string, string>>,
): XmlStep[] {
  if (path === '.') return []
  const names = path.replace(/^\//, '').split('/')
  return names.map((text, index) => {
    const [, at, prefix, local, list] = step.exec(text) ?? []
    if (local === undefined) throw new XmlPathError(`has a step that is no name of XML: ${text}`)
    const isLast = index === names.length - 1
    if (!isLast && (at || list)) {
      throw new XmlPathError('has @ or [] before its last step')
    }
    const uri = prefix === undefined ? undefined : namespaces[prefix]
    if (prefix !== undefined && uri === undefined) {
      throw new XmlPathError(`has the prefix ${prefix}, which xml.namespaces does not name`)
    }
    return {
      local,
      ...(uri !== undefined && { uri }),
      isAttribute: at === '@',
      isList: list !== undefined,
    }
  })
}

/** What stands at a path inside an element: null when nothing does, undefined when more than one thing does. */
export function xmlField(element: XmlElement, steps: readonly XmlStep[]): unknown {
  let found: XmlElement[] = [element]
  for (const one of steps) {
    if (one.isAttribute) {
      const values = found.flatMap(({ attributes }) =>
        attributes.filter((attribute) => isMeant(attribute, one)).map(({ value }) => value),
      )
      return single(values, one.isList)
    }
    found = found.flatMap(({ children }) => children.filter((child) => isMeant(child, one)))
  }
  const values = found.map((one) => (one.children.length === 0 ? leafText(one) : xmlValue(one)))
  return single(values, steps.at(-1)?.isList === true)
}

/** Attributes beside a text have paths of their own. */
function leafText(element: XmlElement): string | null {
  return isNil(element) ? null : element.text
}

function single(values: readonly unknown[], isList: boolean): unknown {
  if (isList) return values
  return values.length > 1 ? undefined : (values[0] ?? null)
}

function isMeant({ local, uri }: { local: string; uri: string }, one: XmlStep): boolean {
  return (one.local === '*' || one.local === local) && (one.uri === undefined || one.uri === uri)
}

/**
 * An element as JSON: its text when it has nothing else, null where it says `xsi:nil`, else an object of its children by name,
 * `@name` for attributes and `#text` for the text beside them. A name that comes again makes a list. Prefixes are left out.
 */
export function xmlValue(element: XmlElement): unknown {
  if (isNil(element)) return null
  const { attributes, children, text } = element
  const own = attributes.filter(({ uri }) => uri !== instance)
  if (own.length === 0 && children.length === 0) return text
  const fields = new Map<string, unknown[]>()
  const add = (name: string, value: unknown) => {
    const there = fields.get(name)
    if (there) there.push(value)
    else fields.set(name, [value])
  }
  for (const { local, value } of own) add(`@${local}`, value)
  for (const child of children) add(child.local, xmlValue(child))
  if (text.trim() !== '') add('#text', text)
  return Object.fromEntries(
    [...fields].map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  )
}

function isNil({ attributes }: XmlElement): boolean {
  return attributes.some(
    ({ local, uri, value }) => local === 'nil' && uri === instance && /^(true|1)$/.test(value),
  )
}
