import {
  Tokenizer,
  TokenizerError,
  TokenParser,
  TokenParserError,
  TokenType,
} from '@streamparser/json'
import { exactNumber, parseExactJson } from '../../domain/json.ts'
import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import { ReasonError } from '../../texts/reason.ts'

/** Up to this length JSON.parse is used: 2 to 8 ms, less than half the time of the streaming parser. */
const wholeCharacters = 131_072
/** The streaming parser needs 1 to 3 ms for a chunk of this length. */
const pieceCharacters = 32_768
/** Length limit of one text or number; no item has a longer one. */
const maxValueCharacters = 4 * 1_048_576
/** Limit of entries in one list or object: growing a longer one takes too long in one step. */
const maxEntries = 2_000_000
/**
 * Limit of lists and objects inside one record. With several times as many, garbage collection stops the process for over 100
 * ms.
 */
const maxNested = 500_000
/** Deeper than any ERP document; items allow 32. */
const maxDepth = 500
const longestNameShown = 128

/** Valid JSON that exceeds a limit: `holds a value longer than …`. */
export class JsonLimitError extends ReasonError {
  override readonly name = 'JsonLimitError'
}

/** Returns numbers like `parseExactJson`: a bigint or text when a number would not be exact, despite the declared type. */
class ExactTokenizer extends Tokenizer {
  protected override parseNumber(text: string): number {
    return exactNumber(text) as number
  }
}

/**
 * Like `parseExactJson`, but yields to the event loop every 10 ms, whatever the document's size. Awaits `pause` after each
 * chunk. Rejects with SyntaxError or JsonLimitError.
 */
export async function parseJsonIncrementally(
  text: string,
  pause: () => Promise<void> | undefined = yieldToEventLoop,
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
    // The parser's message quotes the text, which may contain personal data.
    throw isSyntax ? new SyntaxError('is not JSON') : error
  }
  if (!document) throw new SyntaxError('ends before its value does')
  return document.value
}

/** The checks throw JsonLimitError for structures that need too long even in chunks. */
function createLimits() {
  /** Number of entries so far in each open list and object. */
  const entries: number[] = []
  /** Depth of the outermost list, whose entries are the records: 1 for `{"items":[`. */
  let outermostList: number | undefined
  let nested = 0
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
        case TokenType.LEFT_BRACKET: {
          if (type === TokenType.LEFT_BRACKET) outermostList ??= entries.length
          nested = entries.length - 1 === outermostList ? 0 : nested + 1
          if (nested > maxNested) {
            throw new JsonLimitError({ code: 'TOO_MUCH_NESTED', data: { most: maxNested } })
          }
          if (entries.push(1) <= maxDepth) break
          throw new JsonLimitError({ code: 'NESTED_TOO_DEEP', data: { most: maxDepth } })
        }
        case TokenType.COMMA: {
          const count = (entries.pop() ?? 0) + 1
          entries.push(count)
          if (count <= maxEntries) break
          throw new JsonLimitError({ code: 'LIST_TOO_LONG', data: { most: maxEntries } })
        }
        case TokenType.RIGHT_BRACE:
        case TokenType.RIGHT_BRACKET:
          entries.pop()
          if (entries.length === outermostList) outermostList = undefined
      }
    },
    passPiece(): void {
      piecesOfValue += 1
      if (piecesOfValue * pieceCharacters <= maxValueCharacters) return
      const field = name ? JSON.stringify(name.slice(0, longestNameShown)) : undefined
      throw new JsonLimitError({
        code: 'VALUE_TOO_LONG',
        data: { most: maxValueCharacters, field },
      })
    },
  }
}
