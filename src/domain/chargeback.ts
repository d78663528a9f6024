import type { ProviderAmount } from './provider-payment.ts'

/** The state of a case. `unknown`: the provider shows a charge-back, but its case could not be read. */
export const chargebackStates = ['open', 'won', 'lost', 'unknown'] as const
export type ChargebackState = (typeof chargebackStates)[number]

/** A case as the provider shows it. Missing values are null; the texts are the provider's own. */
export type ProviderChargeback = {
  caseId: string
  /** Numbers of the disputed payments. */
  paymentIds: string[]
  currency: string | null
  amount: ProviderAmount
  reason: string | null
  coverageEligible: boolean | null
  coverageApplied: boolean | null
  documentationStatus: string | null
  documentsDueAt: Date | null
  createdAt: Date | null
  updatedAt: Date | null
}

/**
 * The state of a case that was read. Only `coverage_applied` decides, because the provider's pages describe the
 * statuses of the order and of the payment in contradictory ways (news-2026-11 section 4).
 */
export function stateOfCase({ coverageApplied }: ProviderChargeback): ChargebackState {
  if (coverageApplied === null) return 'open'
  return coverageApplied ? 'won' : 'lost'
}

/** The provider's `documentation_status` while it waits for documents. */
export const documentsWanted = 'pending'
