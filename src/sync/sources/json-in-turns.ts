import { parseExactJson } from '../../domain/json.ts'
import { breathe } from '../poll/breather.ts'
import { inLastName } from './json-name.ts'

/** What is parsed in one go: 1 to 3 ms. */
const pieceCharacters = 32_768
/** Of a value that cannot be taken apart, such as a text. */
const maxPieceCharacters = 4 * 1_048_576
/** Of one list; growing a longer one takes its time by itself. */
const maxEntries = 2_000_000
/** Beyond any document of an ERP; items allow 32. */
const maxDepth = 500

/** JSON that is right by its form and still not read; `message` says why: `holds a value longer than …`. */
export class JsonLimitError extends Error {
  override readonly name = 'JsonLimitError'
}

type Pause = () => Promise<void> | undefined

/**
 * `parseExactJson` that lets others have their turn every 10 ms, however large the document is: it looks for the ends of
 * values only, and has neighbours parsed together, 32 Ki characters at a time. `pause` is awaited after each piece.
 * Rejects with SyntaxError or JsonLimitError.
 */
export async function parseJsonInTurns(text: string, pause: Pause = breathe): Promise<unknown> {
  if (text.length <= pieceCharacters) return parseExactJson(text)
  const open: Container[] = []
  for (let at = 0; at < text.length; at += 1) {
    switch (text[at]) {
      case '"':
        at = endOfText(text, at)
        break
      case '[':
      case '{':
        if (open.length === 0) requireBlank(text.slice(0, at))
        if (open.length === maxDepth) {
          throw new JsonLimitError(`is nested deeper than ${maxDepth} levels`)
        }
        open.push({ isList: text[at] === '[', start: at, from: at + 1, lastComma: at, key: '' })
        break
      case ',':
        if (passComma(open, text, at)) await pause()
        break
      case ']':
      case '}': {
        const done = open.pop()
        if (done?.isList !== (text[at] === ']')) throw new SyntaxError('brackets do not match')
        const outer = open.at(-1)
        if (done.parsed) {
          endContents(done, text, at)
          if (outer) addPart(outer, done.parsed, at)
          await pause()
        }
        if (outer) break
        requireBlank(text.slice(at + 1))
        return done.parsed ?? parsePiece(text.slice(done.start, at + 1))
      }
    }
  }
  if (open.length > 0) throw new SyntaxError('a bracket is not closed')
  return parsePiece(text)
}

/** A list or an object whose end is not found yet. */
type Container = {
  isList: boolean
  /** Of its bracket. */
  start: number
  /** Where its text begins that is not parsed yet. */
  from: number
  /** `start` before the first. */
  lastComma: number
  /** What is parsed already, once it has turned out to be large. */
  parsed?: unknown[] | Record<string, unknown>
  /** Of the large value inside whose end is not found yet. */
  key: string
  /** Behind such a value only blanks may stand before the next comma. */
  isBehindPart?: boolean
}

/** Parses what has gathered when it is enough. Answers whether it did. */
function passComma(open: readonly Container[], text: string, at: number): boolean {
  const inner = open.at(-1)
  if (!inner) throw new SyntaxError('a comma outside')
  inner.lastComma = at
  if (inner.isBehindPart) {
    endContents(inner, text, at)
    return false
  }
  if (at - inner.from <= pieceCharacters) return false
  for (const [depth, container] of open.entries()) {
    if (!container.parsed) takeApart(container, open[depth - 1], text)
  }
  takePiece(inner, text, at)
  return true
}

/** From now on the contents are parsed piece by piece, and `outer` waits for the whole of it. */
function takeApart(container: Container, outer: Container | undefined, text: string): void {
  container.parsed = container.isList ? [] : {}
  if (!outer) return
  if (outer.lastComma >= outer.from) takePiece(outer, text, outer.lastComma)
  const label = text.slice(outer.from, container.start)
  if (outer.isList) requireBlank(label)
  else outer.key = Object.keys(parsePiece(`{${label}0}`) as object)[0] ?? ''
}

/** Parses the neighbours up to a comma or to the closing bracket. */
function takePiece(container: Container, text: string, to: number): void {
  const piece = text.slice(container.from, to)
  // A comma with nothing beside it.
  if (piece.trim() === '') throw new SyntaxError('a value is missing')
  container.from = to + 1
  const { parsed } = container
  if (Array.isArray(parsed)) {
    for (const entry of parsePiece(`[${piece}]`) as unknown[]) parsed.push(entry)
    if (parsed.length > maxEntries) {
      throw new JsonLimitError(`holds a list of more than ${maxEntries} entries`)
    }
  } else if (parsed) {
    for (const [key, value] of Object.entries(parsePiece(`{${piece}}`) as object)) {
      setField(parsed, key, value)
    }
  }
}

/** At a comma behind a large value, or at the closing bracket. */
function endContents(container: Container, text: string, at: number): void {
  if (container.isBehindPart) {
    requireBlank(text.slice(container.from, at))
    container.from = at + 1
    container.isBehindPart = false
  } else takePiece(container, text, at)
}

function addPart(outer: Container, value: unknown, at: number): void {
  if (Array.isArray(outer.parsed)) outer.parsed.push(value)
  else if (outer.parsed) setField(outer.parsed, outer.key, value)
  outer.from = at + 1
  outer.isBehindPart = true
}

function setField(fields: Record<string, unknown>, key: string, value: unknown): void {
  // An assignment to __proto__ would not make a field, as JSON.parse does.
  if (key !== '__proto__') fields[key] = value
  else
    Object.defineProperty(fields, key, {
      value,
      enumerable: true,
      writable: true,
      configurable: true,
    })
}

function parsePiece(text: string): unknown {
  if (text.length > maxPieceCharacters) throw tooLong(text)
  return parseExactJson(text)
}

/** The closing quote of a text: one behind an even number of backslashes. */
function endOfText(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let before = end - 1
    while (text[before] === '\\') before -= 1
    if ((end - before) % 2 === 1) return end
    if (end - start > maxPieceCharacters) throw tooLong(text.slice(0, start))
  }
  throw new SyntaxError('a text is not closed')
}

function tooLong(before: string): JsonLimitError {
  const place = inLastName(before)
  return new JsonLimitError(`holds a value longer than ${maxPieceCharacters} characters${place}`)
}

function requireBlank(text: string): void {
  // The blanks of JSON are a part of those that trim knows.
  if (/[^ \t\r\n]/.test(text)) throw new SyntaxError('something stands where nothing may')
}
