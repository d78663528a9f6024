import type { Reason } from '../../domain/flow-reasons.ts'

/** How the payment side answers; `why` holds no secret. */
export type PaymentsOutcome =
  | { ok: true }
  | {
      ok: false
      /** Whether another attempt can help. */
      retryable: boolean
      why: Reason
      /** Whether the provider itself is in trouble, not only this store. */
      outage: boolean
      retryAfterSeconds?: number
    }

export type PaymentsPos = { externalId: string; name: string }

export type PaymentsStore = {
  externalId: string
  name: string
  location: {
    streetName: string
    streetNumber: string
    cityName: string
    stateName: string
    /** Degrees. */
    latitude: number
    /** Degrees. */
    longitude: number
    reference: string | null
  }
  pos: PaymentsPos[]
}

/**
 * The payment side's own module, as flows need it. Every function is safe to repeat: what exists is adopted, what is gone
 * already counts as deleted. The pause between the creations of two boxes is kept inside.
 */
export type PaymentsPort = {
  /** Creates or changes the store with this external id and adds the boxes that it lacks. */
  upsertStore(client: string, store: PaymentsStore): Promise<PaymentsOutcome>
  /** Adds boxes to a store, or changes the names of those that it has. */
  addPos(client: string, storeExternalId: string, pos: PaymentsPos[]): Promise<PaymentsOutcome>
  deletePos(
    client: string,
    storeExternalId: string,
    posExternalId: string,
  ): Promise<PaymentsOutcome>
  /** Deletes the store with all its boxes, at the provider too; irreversible. */
  deleteStore(client: string, externalId: string): Promise<PaymentsOutcome>
}
