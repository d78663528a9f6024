import { type ErrorCode, Lexer, type YAMLError } from 'yaml'
import type { Finding } from './references.ts'

const brackets = 'check the brackets and quotes here and in the lines above'
const quotes = 'put the text in quotes'

const texts: Readonly<Record<ErrorCode, Finding>> = {
  ALIAS_PROPS: { message: 'an alias takes no tag or anchor' },
  BAD_ALIAS: { message: 'is not a usable alias', hint: `${quotes} if the * belongs to it` },
  BAD_COLLECTION_TYPE: { message: 'has a tag that does not suit it', hint: 'leave the tag out' },
  BAD_DIRECTIVE: { message: 'is not a usable directive', hint: 'leave the line out' },
  BAD_DQ_ESCAPE: {
    message: 'holds a backslash that stands for nothing',
    hint: "write \\\\ for a backslash, or put the text in '…'",
  },
  BAD_INDENT: {
    message: 'is indented in a way that does not fit the lines above',
    hint: 'keys of one level begin in one column',
  },
  BAD_PROP_ORDER: { message: 'has its tag or anchor in the wrong place' },
  BAD_SCALAR_START: { message: 'begins with a character that YAML keeps for itself', hint: quotes },
  BLOCK_AS_IMPLICIT_KEY: {
    message: 'has two keys in one line',
    hint: 'put the text after the first colon in quotes, or the second key on its own line',
  },
  BLOCK_IN_FLOW: { message: 'cannot stand between { } or [ ]', hint: brackets },
  DUPLICATE_KEY: { message: 'stands twice' },
  IMPOSSIBLE: { message: 'is not YAML', hint: brackets },
  KEY_OVER_1024_CHARS: { message: 'the key is longer than 1024 characters' },
  MISSING_CHAR: { message: 'a closing bracket, quote, comma or colon is missing', hint: brackets },
  MULTILINE_IMPLICIT_KEY: {
    message: 'is not a key',
    hint: 'write key: value on one line, with a blank after the colon',
  },
  MULTIPLE_ANCHORS: { message: 'has two anchors' },
  MULTIPLE_DOCS: {
    message: 'begins a second document',
    hint: 'one flow per file: leave the line --- out',
  },
  MULTIPLE_TAGS: { message: 'has two tags' },
  NON_STRING_KEY: { message: 'is not a text, so it cannot be a key', hint: brackets },
  RESOURCE_EXHAUSTION: { message: 'is nested too deeply' },
  TAB_AS_INDENT: { message: 'is indented by a tab', hint: 'indent with blanks' },
  TAG_RESOLVE_FAILED: { message: 'has a tag that is not known here', hint: 'leave the tag out' },
  UNEXPECTED_TOKEN: { message: 'holds something that does not belong here', hint: brackets },
}

/**
 * What is wrong, in words of our own: those of the parser repeat parts of the file, which may hold a password. The text of the
 * line decides which advice fits.
 */
export function yamlFinding({ code, pos }: YAMLError, text: string, line: string): Finding {
  // The parser takes an unclosed bracket for a wrong indentation.
  const isUnclosed = code === 'BAD_INDENT' && isInBrackets(text, pos[0])
  const finding = texts[isUnclosed ? 'MISSING_CHAR' : code]
  const isReference = code === 'UNEXPECTED_TOKEN' || code === 'MISSING_CHAR'
  return isReference && /[{[,:]\s*\$\{/.test(line)
    ? { ...finding, hint: `between { } a reference needs quotes: "\${env:NAME}"` }
    : finding
}

/** Of no length: the lexer's own marks for a document, for brackets that an indentation ends, and for a scalar. */
const marks = new Set(['\u0002', '\u0018', '\u001f'])

/** Whether a `{` or `[` that begins before the offset is not closed before it. */
function isInBrackets(text: string, offset: number): boolean {
  let at = 0
  let open = 0
  for (const sign of new Lexer().lex(text)) {
    if (at >= offset) break
    if (sign === '{' || sign === '[') open += 1
    if (sign === '}' || sign === ']') open -= 1
    if (!marks.has(sign)) at += sign.length
  }
  return open > 0
}
