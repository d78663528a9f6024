import { type Reason, ReasonError } from '../texts/reason.ts'
import type { Flow } from './definition/schema.ts'

/** A record from a source: JSON values, and Date where a driver returns one. */
export type SourceRow = Record<string, unknown>

const invalidReason = Symbol('why there is no record')

/**
 * Marks an invalid entry of a list, so that it is counted and refused like an invalid record. `why` names the place; it
 * contains no secrets.
 */
export function invalidRecord(why: Reason): SourceRow {
  const row: SourceRow & { [invalidReason]?: Reason } = {}
  row[invalidReason] = why
  return row
}

/** An unreadable value of a record. It is an error only where the field is used. `why` names the place. */
export class UnreadableValue {
  readonly why: Reason

  constructor(why: Reason) {
    this.why = why
  }
}

/** Why the record is invalid; undefined for a valid one. */
export function invalidRecordReason(
  row: SourceRow & { [invalidReason]?: Reason },
): Reason | undefined {
  return row[invalidReason]
}

/**
 * Where items come from. Reading changes nothing at the source. A failure is a SourceError or another error; in both cases the
 * poll fails and none of its items are stored.
 */
export type Source = {
  /**
   * Streams the records in batches. Stops when `signal` aborts. Memory use does not grow with the source.
   *
   * - `since`: the cursor to read from (the overlap is already subtracted), or null for a full scan.
   * - `warn`: called with warnings of a scan that does not fail.
   * - `onFileStart`: called at the start of each file with its name and the number of records before it.
   */
  scan(options: {
    since: string | null
    signal: AbortSignal
    warn?: (warning: SourceWarning) => void
    onFileStart?: (file: string, before: number) => void
  }): AsyncIterable<SourceRow[]>
  /**
   * Whether a scan normally returns several records of one key: successive changes, or pages whose records move while they are
   * read.
   */
  repeatsKeys?: boolean
  /** The records with these key values; the last one is the item. None when the source does not have it. */
  readItem(options: { key: readonly string[]; signal: AbortSignal }): Promise<SourceRow[]>
  /** Called after the poll of a scan was committed: a file source then archives the files. */
  committed?(): Promise<void>
  close(): Promise<void>
}

/** `isIncomplete`: a later scan returns the omitted records, so missing items are not deleted items. No secrets. */
export type SourceWarning = { why: Reason; isIncomplete: boolean }

/** An item as it is hashed, stored and mapped: sorted keys, ISO dates, fixed decimals, NFC text. */
export type Item = {
  pk: string
  key: readonly string[]
  value: Record<string, unknown>
  hash: string
  /** Key and hash by the rules that were accepted before, while a changed definition is compared. */
  former?: { pk: string; hash: string } | undefined
}

/** A change at the source. For a deleted item, `value` is what is still stored, at least its key. */
export type ItemChange = {
  pk: string
  kind: 'upsert' | 'delete'
  hash: string
  value: Item['value']
  /** Number of the scan that found the change; it increases with each change of the item. */
  change: number
  /** Send the change even if the destination has the same body, for example after a reset. */
  isForced?: boolean
}

export type DeliveryJob = {
  flow: string
  destination: string
  pk: string
  key: readonly string[]
  kind: 'upsert' | 'delete'
  /** The item; for a delete its last stored state, or only its key. */
  item: Record<string, unknown>
  /** The mapped body of the item. */
  body: unknown
  /** Values from earlier responses of the destination, by the names in its definition. */
  remembered?: Remembered | undefined
  /** The key of this change: see jobKey. */
  jobKey: string
  /**
   * Called immediately before the first byte of each request. False means that the permission to send was lost and nothing may
   * be sent, for example because another process took over during a pause.
   */
  mayStart: () => boolean
  attempt: number
}

/** Values from responses, by the names of the flow file. */
export type Remembered = Readonly<Record<string, string | number | boolean>>

export type DeliveryResult =
  | {
      ok: true
      /** HTTP status of the response. */
      status?: number
      /** Values to remember for the item. */
      remember?: Remembered
      /** Delete the remembered values. */
      forget?: boolean
    }
  | {
      ok: false
      /** Whether another attempt can succeed. */
      retryable: boolean
      /** Contains no secrets. */
      why: Reason
      status?: number
      /** The pause that the receiver asks for. */
      retryAfterSeconds?: number
      /** Whether the receiver itself is failing (network, 5xx, 429). The circuit breaker counts these. */
      outage: boolean
      /**
       * The destination cannot be used at all, and another attempt cannot change that. No attempt is counted. The destination
       * is checked again after this many milliseconds.
       */
      blockedMs?: number
      /** What answered is not the API of this destination. No attempt is counted while it answers no other item either. */
      isForeign?: boolean
      /** Values to remember for the next attempt. */
      remember?: Remembered
      /** Delete the remembered values. */
      forget?: boolean
      /** Nothing was done: send the item in its own request. */
      apart?: boolean
    }

/** Where items go. `deliver` returns a result for every expected failure; an exception counts as retryable. */
export type Destination = {
  deliver(job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult>
  /** For destinations that accept several items in one request. */
  batches?: {
    /** Maximum number of items of a kind in one batch. */
    most(kind: DeliveryJob['kind']): number
    /**
     * Like `deliver`, for several items of one kind, with one result per item in the same order. `apart`: the items must be sent
     * again in smaller batches, because the whole batch was refused although some may be valid, or its results cannot be read.
     */
    deliver(
      jobs: readonly DeliveryJob[],
      signal: AbortSignal,
    ): Promise<readonly DeliveryResult[] | 'apart'>
  }
  /** The reason why `deliver` would refuse the job, as far as it shows without a request; otherwise undefined. */
  refusalOf(job: DeliveryJob): Reason | undefined
  close(): Promise<void>
}

export type DestinationDefinition = Flow['destinations'][number]
export type HttpDefinition = Extract<DestinationDefinition, { type: 'http' }>

/** A failure at the source, shown to operators. Contains no secrets. */
export class SourceError extends ReasonError {}

/** A file is not complete yet. This is not an error: a later poll reads it. */
export class FileNotReadyError extends SourceError {
  /** When it can be read if it does not change again; null when unknown. */
  readonly until: Date | null
  /** Time in milliseconds after which waiting counts as a failure. */
  readonly maxWaitMs: number

  constructor(why: Reason, { until, maxWaitMs }: { until: Date | null; maxWaitMs: number }) {
    super(why)
    this.until = until
    this.maxWaitMs = maxWaitMs
  }
}

/** The source was closed: its flow has a new definition, or the service stops. */
export class SourceClosedError extends SourceError {
  constructor() {
    super({ code: 'SOURCE_CLOSED' })
  }
}
