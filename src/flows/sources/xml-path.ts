import { ReasonError } from '../../texts/reason.ts'

type XmlAttribute = { local: string; uri: string; value: string }

export type XmlElement = {
  local: string
  uri: string
  attributes: XmlAttribute[]
  children: XmlElement[]
  /** The element's own text, without that of its children. */
  text: string
}

/** Without `uri` any namespace matches; `isList` takes all matches. */
export type XmlStep = { local: string; uri?: string; isAttribute: boolean; isList: boolean }

const step = /^(@?)(?:([\p{L}_][\p{L}\p{N}_.-]*):)?(\*|[\p{L}_][\p{L}\p{N}_.-]*)(\[\])?$/u
const instance = 'http://www.w3.org/2001/XMLSchema-instance'

/** An invalid path. The sentence follows the key: `has a step that is no name: …`. */
export class XmlPathError extends ReasonError {}

/**
 * Parses a path: element names separated by slashes. The last step may be an attribute (`@id`) or a list (`Ean[]`). A dot is
 * the element itself. Throws XmlPathError.
 */
export function parseXmlPath(
  path: string,
  namespaces: Readonly<Record<string, string>>,
): XmlStep[] {
  if (path === '.') return []
  const names = path.replace(/^\//, '').split('/')
  return names.map((text, index) => {
    const [, at, prefix, local, list] = step.exec(text) ?? []
    if (local === undefined) throw new XmlPathError({ code: 'XML_STEP', data: { step: text } })
    const isLast = index === names.length - 1
    if (!isLast && (at || list)) {
      throw new XmlPathError({ code: 'XML_STEP_NOT_LAST' })
    }
    const uri = prefix === undefined ? undefined : namespaces[prefix]
    if (prefix !== undefined && uri === undefined) {
      throw new XmlPathError({ code: 'XML_PREFIX', data: { prefix } })
    }
    return {
      local,
      ...(uri !== undefined && { uri }),
      isAttribute: at === '@',
      isList: list !== undefined,
    }
  })
}

/** The value at a path inside an element: null when there is none, undefined when there are several. */
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

/** Attributes of an element with text have their own paths. */
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
 * Converts an element to JSON: its text when it has nothing else; null for `xsi:nil`; else an object with children by name,
 * `@name` for attributes and `#text` for text. Repeated names become a list. Prefixes are removed.
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
