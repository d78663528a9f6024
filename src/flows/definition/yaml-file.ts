import {
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type YAMLError,
} from 'yaml'
import type { Reason, ReasonCode } from '../../texts/reason.ts'
import { type Path, type PathFinding, type PlacedFinding, pathText } from './findings.ts'
import type { Finding } from './secret-references.ts'

type FilePlace = { line: number; column: number }

export type YamlFile = {
  value: unknown
  /** The position of a path's value, or of its key. For a missing key, its expected position. */
  placeOf(path: Path, isKey?: boolean): FilePlace
}

/** Real files have some kilobytes. */
export const maxFlowFileBytes = 131_072
/**
 * Limit of tokens: words, signs, line ends and comments; a quoted or block text counts as one. The parser's time depends on
 * them: 128 KiB of brackets blocked the process for a second.
 */
const maxTokens = 10_000
/** Limit of values that aliases repeat. */
const maxRepeated = 10_000
const maxDepth = 32
const maxAliases = 100

/**
 * Reads a flow file: YAML 1.2 with the core schema, one document, no duplicate keys, no tags. Anchors and aliases are allowed,
 * but an aliased part must not contain an alias, so that a small file stays small.
 */
export function parseYamlFile(bytes: Uint8Array): YamlFile | { findings: PlacedFinding[] } {
  const text = textOf(bytes)
  if (typeof text !== 'string') return { findings: [text] }
  const lines = new LineCounter()
  const overflow = findTokenOverflow(text)
  if (overflow) return { findings: [overflow] }
  const placeAt = (offset: number): FilePlace => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  try {
    const document = parseDocument(text, {
      schema: 'core',
      customTags: [],
      resolveKnownTags: false,
      stringKeys: true,
      // The parser would compare all pairs of keys; checkStructure finds duplicates in one pass.
      uniqueKeys: false,
      prettyErrors: false,
      lineCounter: lines,
    })
    // Later errors are often a consequence of the first one.
    const [error] = [...document.errors, ...document.warnings]
    if (error) {
      const place = placeAt(error.pos[0])
      const line = text.split('\n')[place.line - 1] ?? ''
      return { findings: [{ ...yamlFinding(error, line), ...place, key: '' }] }
    }
    const findings = checkStructure(document).map(({ offset, path, ...finding }) => ({
      ...finding,
      ...placeAt(offset),
      key: pathText(path),
    }))
    if (findings.length > 0) return { findings }
    return {
      // checkStructure limits repeated values.
      value: document.toJS({ maxAliasCount: -1 }),
      placeOf: (path, isKey = false) => {
        const { at, keyAt } = find(document, path)
        return placeAt(isKey ? (keyAt ?? at) : at)
      },
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return { findings: [whole(tooDeep)] }
  }
}

/** A finding with its position in the file. */
export function placeFinding(
  { path, isKey, ...finding }: PathFinding,
  yaml: YamlFile,
): PlacedFinding {
  return { ...finding, key: pathText(path), ...yaml.placeOf(path, isKey) }
}

const tooDeep: Finding = { why: { code: 'NESTED_TOO_DEEP', data: { most: maxDepth } } }

function whole(finding: Finding, place: FilePlace = { line: 1, column: 1 }): PlacedFinding {
  return { ...finding, ...place, key: '' }
}

function textOf(bytes: Uint8Array): string | PlacedFinding {
  if (bytes.length > maxFlowFileBytes) {
    return whole({ why: { code: 'LARGER_THAN_A_FLOW', data: { most: maxFlowFileBytes / 1024 } } })
  }
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return whole({ why: { code: 'FLOW_NOT_UTF8' } }, placeOfBadByte(bytes))
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  const control = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.exec(text)
  if (!control) return text
  const before = text.slice(0, control.index).split('\n')
  return whole(
    { why: { code: 'CONTROL_CHARACTER' } },
    { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 },
  )
}

/** The position of the first byte that is not UTF-8. */
function placeOfBadByte(bytes: Uint8Array): FilePlace {
  const good = new TextDecoder('utf-8').decode(bytes).split('\ufffd', 1)[0] ?? ''
  const before = good.split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}

/** The position where the file exceeds the limit of tokens. */
function findTokenOverflow(text: string): PlacedFinding | undefined {
  let tokens = 0
  let line = 1
  for (const token of new Lexer().lex(text)) {
    for (let at = token.indexOf('\n'); at !== -1; at = token.indexOf('\n', at + 1)) line += 1
    tokens += 1
    if (tokens > maxTokens) {
      const why: Reason = { code: 'TOO_MANY_WORDS', data: { most: maxTokens } }
      return whole({ why }, { line, column: 1 })
    }
  }
  return undefined
}

type StructureFinding = Finding & { path: Path; offset: number }

/** Finds duplicate keys, `__proto__`, nested aliases and too much depth. */
function checkStructure(document: Document): StructureFinding[] {
  const findings: StructureFinding[] = []
  let aliases = 0
  let repeated = 0
  const find = (path: Path, offset: number, why: Reason, hint?: Reason) =>
    findings.push({ path, offset, why, hint })
  const visit = (node: unknown, path: Path, isAnchored: boolean): void => {
    if (path.length > maxDepth) throw new RangeError('nested too deeply')
    if (isAlias(node)) {
      aliases += 1
      const offset = offsetOf(node)
      if (aliases === maxAliases + 1) {
        find(path, offset, { code: 'TOO_MANY_ALIASES', data: { most: maxAliases } })
      } else if (isAnchored) {
        find(path, offset, { code: 'ALIAS_IN_ANCHOR' })
      } else if (aliases <= maxAliases) {
        const target = node.resolve(document)
        const before = repeated
        repeated += target ? countNodes(target) : 0
        if (!target) {
          find(path, offset, { code: 'ALIAS_WITHOUT_ANCHOR' })
        } else if (before <= maxRepeated && repeated > maxRepeated) {
          find(path, offset, { code: 'ALIAS_TOO_MUCH', data: { most: maxRepeated } })
        }
      }
      return
    }
    const anchored = isAnchored || hasAnchor(node)
    if (isSeq(node)) {
      for (const [index, entry] of node.items.entries()) visit(entry, [...path, index], anchored)
    }
    if (!isMap(node)) return
    const seen = new Map<string, number>()
    for (const pair of node.items) {
      const key = keyOf(pair)
      const offset = offsetOf(pair.key)
      const first = seen.get(key)
      if (first !== undefined) {
        find([...path, key], offset, { code: 'KEY_STANDS_TWICE' }, { code: 'KEEP_ONE' })
      } else if (key === '__proto__') {
        find([...path, key], offset, { code: 'KEY_FORBIDDEN' })
      }
      seen.set(key, offset)
      visit(pair.value, [...path, key], anchored)
    }
  }
  visit(document.contents, [], false)
  return findings
}

function countNodes(node: unknown): number {
  if (isSeq(node)) return node.items.reduce<number>((sum, entry) => sum + countNodes(entry), 1)
  if (!isMap(node)) return 1
  return node.items.reduce((sum, pair) => sum + countNodes(pair.value), 1)
}

function hasAnchor(node: unknown): boolean {
  return (isScalar(node) || isMap(node) || isSeq(node)) && node.anchor !== undefined
}

function keyOf(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : ''
}

function offsetOf(node: unknown): number {
  return (node as Node | null)?.range?.[0] ?? 0
}

/** `at` is the position to show: the value, or the key when the value is missing or empty. */
type Found = { at: number; keyAt: number | undefined; node: unknown }

function find(document: Document, path: Path): Found {
  let node: unknown = document.contents
  let keyAt: number | undefined
  for (const step of path) {
    const target = isAlias(node) ? node.resolve(document) : node
    if (isMap(target)) {
      const pair = target.items.find((one) => keyOf(one) === step)
      if (!pair) return { at: keyAt ?? offsetOf(target), keyAt, node: undefined }
      keyAt = offsetOf(pair.key)
      node = pair.value
    } else if (isSeq(target) && typeof step === 'number' && target.items[step] !== undefined) {
      node = target.items[step]
      keyAt = offsetOf(node)
    } else {
      return { at: keyAt ?? offsetOf(target), keyAt, node: undefined }
    }
  }
  const isEmpty = node === null || (isScalar(node) && node.value === null)
  return { at: isEmpty ? (keyAt ?? 0) : offsetOf(node), keyAt, node }
}

const codes = {
  ALIAS_PROPS: 'YAML_ALIAS_PROPS',
  BAD_ALIAS: 'YAML_BAD_ALIAS',
  BAD_COLLECTION_TYPE: 'YAML_COLLECTION_TAG',
  BAD_DIRECTIVE: 'YAML_DIRECTIVE',
  BAD_DQ_ESCAPE: 'YAML_ESCAPE',
  BAD_INDENT: 'YAML_INDENT',
  BAD_PROP_ORDER: 'YAML_PROP_ORDER',
  BAD_SCALAR_START: 'YAML_SCALAR_START',
  BLOCK_AS_IMPLICIT_KEY: 'YAML_TWO_KEYS',
  BLOCK_IN_FLOW: 'YAML_BLOCK_IN_FLOW',
  DUPLICATE_KEY: 'KEY_STANDS_TWICE',
  IMPOSSIBLE: 'YAML_IMPOSSIBLE',
  KEY_OVER_1024_CHARS: 'YAML_KEY_LENGTH',
  MISSING_CHAR: 'YAML_MISSING_CHAR',
  MULTILINE_IMPLICIT_KEY: 'YAML_NO_KEY',
  MULTIPLE_ANCHORS: 'YAML_TWO_ANCHORS',
  MULTIPLE_DOCS: 'YAML_SECOND_DOCUMENT',
  MULTIPLE_TAGS: 'YAML_TWO_TAGS',
  NON_STRING_KEY: 'YAML_NO_TEXT_KEY',
  RESOURCE_EXHAUSTION: 'YAML_TOO_DEEP',
  TAB_AS_INDENT: 'YAML_TAB',
  TAG_RESOLVE_FAILED: 'YAML_UNKNOWN_TAG',
  UNEXPECTED_TOKEN: 'YAML_UNEXPECTED',
} as const satisfies Record<ErrorCode, ReasonCode>

/**
 * Our own message for a YAML error: the parser's messages quote the file, which may contain a password. The text of the line
 * determines the advice.
 */
function yamlFinding({ code }: YAMLError, line: string): Finding {
  const why = { code: codes[code] }
  const isReference = code === 'UNEXPECTED_TOKEN' || code === 'MISSING_CHAR'
  const needsQuotes = isReference && /[{[,:]\s*\$\{/.test(line)
  return needsQuotes ? { why, hint: { code: 'REFERENCE_NEEDS_QUOTES' } } : { why }
}
