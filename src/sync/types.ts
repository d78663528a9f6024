import { type Reason, sentenceOf } from '../domain/flow-reasons.ts'
import type { Flow } from './definition/schema.ts'

/** A record as a source gives it: JSON values, and Date where a driver makes one. */
export type SourceRow = Record<string, unknown>

const refusedFor = Symbol('why there is no record')

/**
 * Stands for an entry of a list that is no record, in its place, so that it is counted and refused like a record that nobody can
 * judge. `reason` tells the place; no secrets.
 */
export function noRecord(reason: string): SourceRow {
  const row: SourceRow & { [refusedFor]?: string } = {}
  row[refusedFor] = reason
  return row
}

/** Stands for a value that a record has and nobody can read: it matters only where the field is used. `reason` tells the place. */
export class UnreadableValue {
  readonly reason: string

  constructor(reason: string) {
    this.reason = reason
  }
}

/** Why this is no record; undefined of one that is. */
export function whyNoRecord(row: SourceRow & { [refusedFor]?: string }): string | undefined {
  return row[refusedFor]
}

/**
 * Where items come from. Reading never changes anything at the source. All failures are SourceError or throw as they are;
 * either way the poll fails and nothing of it is kept.
 */
export type Source = {
  /**
   * Streams the records in batches. `since` is the cursor to read from (already minus the overlap), or null to read
   * everything. Stops when `signal` aborts. Memory does not grow with the source. With `lookOnly` it gives what a poll
   * would read now and leaves no trace: no `committed` follows it, and that of a poll beside it is not disturbed. `warn`
   * hears what people should know of a read that does not fail. `begins` is called when records of another file begin, with its
   * name and how many records came before them.
   */
  scan(options: {
    since: string | null
    signal: AbortSignal
    lookOnly?: boolean
    warn?: (warning: SourceWarning) => void
    begins?: (file: string, before: number) => void
  }): AsyncIterable<SourceRow[]>
  /**
   * Whether a scan gives several records of one key in the ordinary course: changes one after the other, or pages whose records
   * move while they are read.
   */
  repeatsKeys?: boolean
  /** The records of one item by its key values, the last one being the item's; none when the source does not have it. */
  readItem(options: { key: readonly string[]; signal: AbortSignal }): Promise<SourceRow[]>
  /** Called after a scan whose poll was committed: a file source archives what it read. */
  committed?(): Promise<void>
  close(): Promise<void>
}

/** `isIncomplete`: records were left out that a later read gives, so that what is not there did not vanish. No secrets. */
export type SourceWarning = { message: string; isIncomplete: boolean }

/** An item in the form that is hashed, kept and mapped: sorted keys, ISO dates, fixed decimals, NFC text. */
export type Item = {
  pk: string
  key: readonly string[]
  value: Record<string, unknown>
  hash: string
}

/** A change at the source; of a deleted item `value` is what is still known of it, its key at least. */
export type ItemChange = {
  pk: string
  kind: 'upsert' | 'delete'
  hash: string
  value: Item['value']
  /** The number of the read that found it; greater for every later change of the item. */
  change: number
  /** It is sent even if the destination has the same body, as after a reset. */
  isAnew?: boolean
}

export type DeliveryJob = {
  flow: string
  destination: string
  pk: string
  key: readonly string[]
  kind: 'upsert' | 'delete'
  /** The item; for a delete what was last known, or just its key. */
  item: Record<string, unknown>
  /** What the mapping made of the item. */
  body: unknown
  /** What earlier answers of the destination told of the item, by the names of its definition. */
  remembered?: Remembered | undefined
  /** The key of this change: see jobKey. */
  jobKey: string
  /**
   * Asked right before the first byte leaves the house, each time one does: false means that the right to send was lost,
   * as after a stand-still in which another process took over, and that nothing may be sent.
   */
  mayStart: () => boolean
  attempt: number
}

/** Values of answers, by the names of the flow file. */
export type Remembered = Readonly<Record<string, string | number | boolean>>

export type DeliveryResult =
  | {
      ok: true
      /** Of the answer, where the receiver speaks HTTP. */
      status?: number
      /** To be remembered of the item. */
      remember?: Remembered
      /** What was remembered holds no longer. */
      forget?: boolean
    }
  | {
      ok: false
      /** Whether another attempt can help. */
      retryable: boolean
      /** No secrets. */
      why: Reason
      status?: number
      /** The receiver's own wish. */
      retryAfterSeconds?: number
      /** Whether the receiver itself is in trouble (network, 5xx, 429), which a breaker counts. */
      outage: boolean
      /**
       * Nothing can be sent to the destination at all, for a reason that no attempt changes: none is counted, and after so
       * many milliseconds one looks again.
       */
      blockedMs?: number
      /** To be remembered of the item, for the next attempt. */
      remember?: Remembered
      /** What was remembered of the item holds no longer. */
      forget?: boolean
      /** Nothing of it was done; it is to go by a request of its own. */
      apart?: boolean
    }

/** Where items go. `deliver` answers for every failure it can judge; what it throws counts as retryable. */
export type Destination = {
  deliver(job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult>
  /** For those that take several items by one request. */
  batches?: {
    /** How many items of a kind go together at most. */
    most(kind: DeliveryJob['kind']): number
    /**
     * As `deliver`, for several items of one kind: an answer for each, in their order. `apart` when they were refused
     * together, though some of them may be fine by themselves: nothing of them was done, and they are to come again in
     * smaller batches.
     */
    deliver(
      jobs: readonly DeliveryJob[],
      signal: AbortSignal,
    ): Promise<readonly DeliveryResult[] | 'apart'>
  }
  /** Why `deliver` would refuse the job, as far as that shows without asking anybody; undefined when nothing does. */
  refusalOf(job: DeliveryJob): Reason | undefined
  close(): Promise<void>
}

export type DestinationDefinition = Flow['destinations'][number]

/** A failure at the source, shown to operators: `why` holds no secret. Words alone are a reason without a code of its own. */
export class SourceError extends Error {
  readonly why: Reason

  constructor(why: Reason | string, options?: ErrorOptions) {
    const reason: Reason =
      typeof why === 'string' ? { code: 'SOURCE_FAILED', data: { said: why } } : why
    super(sentenceOf(reason, 'en'), options)
    this.why = reason
  }
}

/** Whoever used the source has closed it, for a new definition of its flow or at the end. */
export class SourceClosedError extends SourceError {
  constructor() {
    super('the source was closed')
  }
}
