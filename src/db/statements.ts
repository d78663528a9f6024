import { randomBytes } from 'node:crypto'
import { CompiledQuery, type RawBuilder, sql } from 'kysely'
import { types } from 'pg'
import { parseExactJson } from '../domain/json.ts'
import type { Db, Trx } from './database.ts'
import type { Tables } from './tables.ts'

/**
 * A statement with a constant text and named values like `:id`. It is built once, so that a call costs only its round
 * trip. One name has one type: write `:name::uuid` where PostgreSQL cannot infer it. `Values` names each of them: one that is left out or
 * misspelt does not compile, and one that only the text has is an error of the first call.
 */
export function fixedStatement<Values extends object, Row>(
  text: string,
): (db: Db | Trx, values: Values) => Promise<Row[]> {
  const names: string[] = []
  const numbered = text.replace(/(?<!:):([a-z]\w*)/g, (_, name: string) => {
    if (!names.includes(name)) names.push(name)
    return `$${names.indexOf(name) + 1}`
  })
  const built: CompiledQuery<Row> = CompiledQuery.raw(numbered)
  return async (db, values) => {
    const parameters = names.map((name) => {
      if (!(name in values)) throw new Error(`the statement has no value for :${name}`)
      return (values as Record<string, unknown>)[name] ?? null
    })
    const { rows } = await db.executeQuery<Row>({ ...built, parameters })
    return rows
  }
}

/** Deletes at most `limit` rows of a table that fit the condition, in its order if it has one. Returns how many. */
export async function deleteOldest(
  db: Db,
  table: keyof Tables,
  condition: RawBuilder<unknown>,
  limit: number,
): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from ${sql.table(table)} where ctid = any(array(
      select ctid from ${sql.table(table)} where ${condition} limit ${limit}))`.execute(db)
  return Number(numAffectedRows)
}

/** The parameter for a jsonb column: pg would take a JavaScript array for a PostgreSQL array. */
export function json(value: unknown): string {
  return JSON.stringify(value)
}

/** A text that repeats this often is constant; one that is composed for each call never repeats. */
const usesBefore = 3
/** What each connection keeps prepared on the server: some ten kilobytes each. */
const namesAtMost = 200
const candidatesAtMost = 1_000
/** Longer texts are lists with a varying number of rows, or run so long that parsing does not matter. */
const longestText = 6_000

/**
 * Names for repeated statements, under which a connection prepares them once instead of parsing and planning each
 * time. Equal texts have one name on all connections; their number is limited.
 */
export class StatementNames {
  readonly #names = new Map<string, string>()
  readonly #uses = new Map<string, number>()
  // A statement that another program left in a session must not match.
  #series = randomBytes(4).toString('hex')

  /** The name to prepare a text under; undefined while it is not worth one. */
  nameOf(text: string): string | undefined {
    return this.#names.get(text) ?? this.#consider(text)
  }

  /** From now on everything is prepared again, on every connection. */
  renew(): void {
    this.#names.clear()
    this.#series = randomBytes(4).toString('hex')
  }

  #consider(text: string): string | undefined {
    if (text.length > longestText || this.#names.size >= namesAtMost) return undefined
    const uses = (this.#uses.get(text) ?? 0) + 1
    if (uses < usesBefore) {
      if (this.#uses.size >= candidatesAtMost) this.#uses.clear()
      this.#uses.set(text, uses)
      return undefined
    }
    this.#uses.delete(text)
    const name = `${this.#series}_${this.#names.size}`
    this.#names.set(text, name)
    return name
  }
}

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
