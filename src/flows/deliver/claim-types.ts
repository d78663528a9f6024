import type { KeptBody } from '../../db/column-types.ts'
import type { ItemClaim } from '../../repositories/flows/claims.ts'
import type { Remembered } from '../types.ts'

/**
 * The identity of an item at its destination. Undefined for a destination that does not show it: then nothing says whether two
 * items are the same thing there.
 */
export type ClaimRule = {
  /** A change of an item leaves its identity as it is. */
  isFixed: boolean
  /** Two items of the flow can have one identity, which is wrong: the last one that is sent counts there. */
  canBeShared: boolean
  claimOf(body: unknown, remembered: Remembered | undefined, pk: string): ItemClaim | undefined
  /** The values of the body that name an item. Absent where these alone do not tell its identity, or must not be deleted. */
  namesOf?(body: unknown): string[]
}

/**
 * What an item has at the destination under an identity that is not its present one: `pk` is the key of the record of it, `body`
 * what its delete needs.
 */
export type FormerIdentity = { pk: string; body: KeptBody; claim: ItemClaim }
