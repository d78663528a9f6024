import type { Flow } from './definition/schema.ts'

/** A record as a source gives it: JSON values, and Date where a driver makes one. */
export type SourceRow = Record<string, unknown>

/**
 * Where items come from. Reading never changes anything at the source. All failures are SourceError or throw as they are;
 * either way the poll fails and nothing of it is kept.
 */
export type Source = {
  /**
   * Streams the records in batches. `since` is the cursor to read from (already minus the overlap), or null to read
   * everything. Stops when `signal` aborts. Memory does not grow with the source. With `lookOnly` it gives what a poll
   * would read now and leaves no trace: no `committed` follows it, and that of a poll beside it is not disturbed.
   */
  scan(options: {
    since: string | null
    signal: AbortSignal
    lookOnly?: boolean
  }): AsyncIterable<SourceRow[]>
  /** The records of one item by its key values; none when the source does not have it. */
  readItem(options: { key: readonly string[]; signal: AbortSignal }): Promise<SourceRow[]>
  /** Called after a scan whose poll was committed: a file source archives what it read. */
  committed?(): Promise<void>
  close(): Promise<void>
}

/** An item in the form that is hashed, kept and mapped: sorted keys, ISO dates, fixed decimals, NFC text. */
export type Item = {
  pk: string
  key: readonly string[]
  value: Record<string, unknown>
  hash: string
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
  /** The idempotency key of (flow, destination, pk, hash). */
  jobKey: string
  attempt: number
}

export type DeliveryResult =
  | {
      ok: true
      /** Of the answer, where the receiver speaks HTTP. */
      status?: number
    }
  | {
      ok: false
      /** Whether another attempt can help. */
      retryable: boolean
      /** For people; no secrets. At most 1,000 characters are kept. */
      reason: string
      status?: number
      /** The receiver's own wish. */
      retryAfterSeconds?: number
      /** Whether the receiver itself is in trouble (network, 5xx, 429), which a breaker counts. */
      outage: boolean
    }

/** Where items go. `deliver` answers for every failure it can judge; what it throws counts as retryable. */
export type Destination = {
  deliver(job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult>
  /** Why `deliver` would refuse the job, as far as that shows without asking anybody; undefined when nothing does. */
  refusalOf(job: DeliveryJob): string | undefined
  close(): Promise<void>
}

export type DestinationDefinition = Flow['destinations'][number]

/** A failure at the source, told to the operator as it is: `message` holds no secret. */
export class SourceError extends Error {}

/** Whoever used the source has closed it, for a new definition of its flow or at the end. */
export class SourceClosedError extends SourceError {
  constructor() {
    super('the source was closed')
  }
}
