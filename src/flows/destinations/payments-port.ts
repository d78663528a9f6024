import type { StoreLocation } from '../../domain/store-location.ts'
import type { Reason } from '../../texts/reason.ts'

/** The result of a payment-side call. `why` contains no secret. */
export type PaymentsOutcome =
  | { ok: true }
  | {
      ok: false
      /** Whether another attempt can succeed. */
      retryable: boolean
      why: Reason
      /** Whether the provider is failing, and not only this store. */
      outage: boolean
      retryAfterSeconds?: number
    }

type PaymentsPos = { externalId: string; name: string }

type PaymentsStore = {
  externalId: string
  name: string
  location: StoreLocation
  pos: PaymentsPos[]
}

/**
 * The payment side's functions for flows. All are safe to repeat: an existing object is adopted, and a missing one counts as
 * deleted. The implementation waits between the creation of two boxes.
 */
export type PaymentsPort = {
  /** Creates or changes the store with this external id, and adds its missing boxes. */
  upsertStore(client: string, store: PaymentsStore): Promise<PaymentsOutcome>
  /** Adds boxes to a store, or renames existing ones. */
  addPos(client: string, storeExternalId: string, pos: PaymentsPos[]): Promise<PaymentsOutcome>
  deletePos(
    client: string,
    storeExternalId: string,
    posExternalId: string,
  ): Promise<PaymentsOutcome>
  /** Deletes the store and all its boxes, at the provider too. This cannot be undone. */
  deleteStore(client: string, externalId: string): Promise<PaymentsOutcome>
}
