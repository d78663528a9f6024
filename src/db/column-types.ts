import type { ColumnType, InsertType, SelectType, UpdateType } from 'kysely'
import type { StoredSum } from '../domain/money.ts'
import type { StoredReason } from '../texts/reason.ts'

/** A jsonb column: read parsed, written as JSON text, because pg sends a JavaScript array as a PostgreSQL array. */
export type Json<T> = ColumnType<T, string, string>
/** Set at insert, never changed. */
export type Fixed<T> = ColumnType<SelectType<T>, InsertType<T>, never>
/** The database has a default. Other than Kysely's Generated it may stand around another of these types. */
export type WithDefault<T> = ColumnType<SelectType<T>, InsertType<T> | undefined, UpdateType<T>>
/** Not set at insert. */
export type Later<T> = ColumnType<SelectType<T>, never, UpdateType<T>>
/** Never set to null by an update. */
export type Kept<T> = ColumnType<SelectType<T>, InsertType<T>, Exclude<UpdateType<T>, null>>

export type { StoreLocation } from '../domain/store-location.ts'

/** The requester of an operation that the service may end later. */
export type AskedBy = {
  address: string | null
  key_id?: string
  person?: { id: string; name: string }
  session_id?: string
  reason?: string
}

/** The rules that keys and hashes of items were made by, and a SHA-256 (hex) of what else determines them: the source as it is read. */
export type ItemRules = {
  source: string
  key: string[]
  hash: { ignore: string[]; trim: boolean; emptyAsNull: boolean; decimals: Record<string, number> }
}

/** How an operator answers the question of a flow. */
export type QuestionAnswer = 'send' | 'send_without_deletes' | 'keep'

/** What a destination would be sent because of a changed definition: numbers of items. */
export type AskedCounts = {
  new: number
  changed: number
  /** Delivered items that the definition excludes now. They stay there. */
  excluded: number
  /** Items whose mapping fails. */
  notMappable: number
  unchanged: number
}

/**
 * What a flow asks: about a changed definition, or about deletes that deletes.guard holds. `definition`: SHA-256 (hex) of what was
 * compared; absent in a question about deletes. Without `number`, the number of the read that asks, the comparison has not
 * ended. `answer` is set until it is applied.
 */
export type StoredQuestion = {
  definition?: string
  number?: number
  askedAt?: string
  destinations?: (AskedCounts & { name: string; isMoved: boolean })[]
  /** Items that the source lost, or that the definition does not read any more. */
  missing?: number
  /** Changes of the source that the same read found. They are sent after any answer. */
  ofSource?: number
  examples?: { destination: string; pk: string; kind: 'new' | 'changed'; body: string }[]
  held?: HeldDeletes
  /** The missing items have keys of a former definition. */
  isOtherKey?: boolean
  answer?: QuestionAnswer
  /** The answer concerns only these missing items. */
  pks?: string[]
}

/** Why deletes wait. `known`: the items of the flow. `letThrough`: items of the same loss that were deleted one by one. */
type HeldDeletes = { why: StoredReason; known: number; letThrough: number }

/** What is stored of a delivered body for a later delete or change: all of it, or the fields that are kept of it. */
export type KeptBody = { whole: unknown } | { part: Readonly<Record<string, unknown>> }

/**
 * What an item would be at its destination by the changed definition: the digest of its body, what is stored of it, and its
 * identity there. Without `digest` its mapping fails.
 */
export type AskedBody = {
  digest?: string
  body?: KeptBody | undefined
  claim?: { exact: string; folded: string } | undefined
}

export type RememberedNames = Readonly<Record<string, string | number | boolean>>

/** Sums of a settlement report. */
export type SettlementTotals = {
  grossCents: StoredSum
  feeCents: StoredSum
  financingCents: StoredSum
  taxesCents: StoredSum
  netCents: StoredSum
}

/** A tax of a row of a settlement report. */
export type SettlementTax = { name: string; entity: string | null; cents: number }
