import {
  Tokenizer,
  TokenizerError,
  TokenParser,
  TokenParserError,
  TokenType,
} from '@streamparser/json'
import { exactNumber, parseExactJson } from '../../domain/json.ts'
import { breathe } from '../poll/breather.ts'

/** The most that JSON.parse reads, in 2 to 8 ms. It needs less than half the time of the parser for longer documents. */
const wholeCharacters = 131_072
/** What that parser reads in one go, in 1 to 3 ms. */
const pieceCharacters = 32_768
/** Of one text or number; no item has a longer one. */
const maxValueCharacters = 4 * 1_048_576
/** Of one list or object; growing a longer one takes its time by itself. */
const maxEntries = 2_000_000
/** Beyond any document of an ERP; items allow 32. */
const maxDepth = 500
const longestNameShown = 128

/** JSON that is right by its form and still not read; `message` says why: `holds a value longer than …`. */
export class JsonLimitError extends Error {
  override readonly name = 'JsonLimitError'
}

/** Its numbers are those of `parseExactJson`: a bigint or a text where a number would not be exact, whatever the type says. */
class ExactTokenizer extends Tokenizer {
  protected override parseNumber(text: string): number {
    return exactNumber(text) as number
  }
}

/**
 * `parseExactJson` that lets others have their turn every 10 ms, however large the document is. `pause` is awaited after each
 * piece. Rejects with SyntaxError or JsonLimitError.
 */
export async function parseJsonInTurns(
  text: string,
  pause: () => Promise<void> | undefined = breathe,
): Promise<unknown> {
  if (text.length <= wholeCharacters) return parseExactJson(text)
  const tokenizer = new ExactTokenizer()
  const parser = new TokenParser({ paths: ['$'] })
  const limits = createLimits()
  let document: { value: unknown } | undefined
  parser.onValue = ({ value }) => {
    document = { value }
  }
  tokenizer.onToken = (token) => {
    limits.passToken(token.token, token.value)
    parser.write(token)
  }
  try {
    for (let at = 0; at < text.length; at += pieceCharacters) {
      tokenizer.write(text.slice(at, at + pieceCharacters))
      limits.passPiece()
      await pause()
    }
    tokenizer.end()
  } catch (error) {
    const isSyntax = error instanceof TokenizerError || error instanceof TokenParserError
    // The parser's message quotes the text, which is somebody's data.
    throw isSyntax ? new SyntaxError('is not JSON') : error
  }
  if (!document) throw new SyntaxError('ends before its value does')
  return document.value
}

/** Throws JsonLimitError for what would take long even in pieces. */
function createLimits() {
  /** Entries so far of the lists and objects that are open. */
  const entries: number[] = []
  let piecesOfValue = 0
  let text = ''
  let name = ''
  return {
    passToken(type: TokenType, value: unknown): void {
      piecesOfValue = 0
      switch (type) {
        case TokenType.STRING:
          text = String(value)
          break
        case TokenType.COLON:
          name = text
          break
        case TokenType.LEFT_BRACE:
        case TokenType.LEFT_BRACKET:
          if (entries.push(1) <= maxDepth) break
          throw new JsonLimitError(`is nested deeper than ${maxDepth} levels`)
        case TokenType.COMMA: {
          const count = (entries.pop() ?? 0) + 1
          entries.push(count)
          if (count <= maxEntries) break
          throw new JsonLimitError(`holds a list of more than ${maxEntries} entries`)
        }
        case TokenType.RIGHT_BRACE:
        case TokenType.RIGHT_BRACKET:
          entries.pop()
      }
    },
    passPiece(): void {
      piecesOfValue += 1
      if (piecesOfValue * pieceCharacters <= maxValueCharacters) return
      const place = name && ` in ${JSON.stringify(name.slice(0, longestNameShown))}`
      throw new JsonLimitError(`holds a value longer than ${maxValueCharacters} characters${place}`)
    },
  }
}
