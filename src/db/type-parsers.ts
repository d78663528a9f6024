import { types } from 'pg'
import { parseExactJson } from '../domain/json.ts'

type Parse = (text: string) => unknown

const BYTEA = 17
const INT8 = 20
const TEXT_ARRAY: number = 1009
const DATE = 1082
const TIMESTAMP = 1114
const TIMESTAMPTZ = 1184
const INTERVAL = 1186
const JSONB = 3802

/**
 * The parsers of values of both databases, by type oid (pg_type.h); other types are alike by default. Without them pg
 * returns counts as text and `date` as local midnight, PGlite returns bytea as Uint8Array. `numeric` stays text on
 * both, so a sum of bigint needs a cast to bigint in SQL.
 */
export const typeParsers: Record<number, Parse> = {
  [BYTEA]: (text) => Buffer.from(text.slice(2), 'hex'),
  [INT8]: parseInt8,
  // A day or an hour without a zone is no instant: as written.
  [DATE]: asText,
  [TIMESTAMP]: asText,
  [TIMESTAMPTZ]: types.getTypeParser(TIMESTAMPTZ),
  [INTERVAL]: asText,
  // Items contain whole numbers that JavaScript would round.
  [JSONB]: parseExactJson,
}

/** PGlite derives the parsers of arrays from those of their elements; pg needs them listed. */
const arrayElements: Record<number, number> = {
  1001: BYTEA,
  1016: INT8,
  1115: TIMESTAMP,
  1182: DATE,
  1185: TIMESTAMPTZ,
  1187: INTERVAL,
}

/** Called for each column of each answer. */
const known = new Map<number, Parse>()

/** The `types` option of pg's Pool and Client. */
export const pgTypes: { getTypeParser: typeof types.getTypeParser } = {
  getTypeParser: ((oid: number, format: 'text' | 'binary' = 'text') => {
    if (format !== 'text') return types.getTypeParser(oid, format as 'text')
    let parser = known.get(oid)
    if (!parser) {
      parser = typeParsers[oid] ?? arrayParser(oid) ?? (types.getTypeParser(oid, format) as Parse)
      known.set(oid, parser)
    }
    return parser
  }) as typeof types.getTypeParser,
}

function asText(text: string): string {
  return text
}

/** A number if it is exact, else a bigint, which arithmetic with numbers refuses instead of rounding. */
function parseInt8(text: string): number | bigint {
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : BigInt(text)
}

function arrayParser(oid: number): Parse | undefined {
  const parse = typeParsers[arrayElements[oid] ?? -1]
  if (!parse) return undefined
  const split: Parse = types.getTypeParser(TEXT_ARRAY)
  const deep = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(deep)
    return typeof value === 'string' ? parse(value) : value
  }
  return (text) => deep(split(text))
}
