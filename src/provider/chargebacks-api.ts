import { z } from 'zod'
import type { ProviderChargeback } from '../domain/chargeback.ts'
import { type ProviderClient, segment } from './client.ts'
import { MpNote } from './payload-fields.ts'
import { MpDate, MpMoney } from './payments-api.ts'
import { undefinedIfGone } from './provider-error.ts'
import type { CallOptions, Provider } from './provider-types.ts'

/**
 * Charge-back cases, from the provider's pages and public projects (news-2026-11 section 4, beyond-the-charge section
 * 7); not tried live. Only the number of a case is required; a field that cannot be read becomes null.
 */
const MpFlag = z.boolean().nullish().catch(null)

const MpCaseFields = z.object({
  id: z.union([z.string(), z.number()]).nullish().catch(null),
  payments: z
    .array(z.union([z.string(), z.number(), z.object({ id: MpNote })]).catch(''))
    .nullish()
    .catch(null),
  payment_id: MpNote,
  currency: MpNote,
  currency_id: MpNote,
  amount: MpMoney,
  reason: MpNote,
  coverage_elegible: MpFlag,
  coverage_eligible: MpFlag,
  coverage_applied: MpFlag,
  documentation_status: MpNote,
  date_documentation_deadline: MpDate,
  date_created: MpDate,
  date_last_updated: MpDate,
})

const MpCaseSearch = z.object({
  results: z.array(
    z.object({ id: z.union([z.string(), z.number()]).nullish().catch(null) }).catch({ id: null }),
  ),
})

export function createChargebacks(client: ProviderClient): Provider['chargebacks'] {
  const headersOf = (mpUserId: number) => ({ 'x-caller-id': String(mpUserId) })
  return {
    async get(token, mpUserId, caseId, options?: CallOptions) {
      const read = await client
        .call({
          operation: 'chargeback.read',
          method: 'GET',
          path: `/v1/chargebacks/${segment(caseId)}`,
          token,
          headers: headersOf(mpUserId),
          schema: MpCaseFields,
          accept: ({ id }) => isSameCase(id, caseId),
          options,
        })
        .catch(undefinedIfGone)
      return read && caseFrom(caseId, read)
    },
    async search(token, mpUserId, paymentId, options?: CallOptions) {
      const found = await client.call({
        operation: 'chargeback.search',
        method: 'GET',
        path: '/v1/chargebacks/search',
        query: { payment_id: paymentId },
        token,
        headers: headersOf(mpUserId),
        schema: MpCaseSearch,
        options,
      })
      return found.results.flatMap(({ id }) => caseNumber(id) ?? [])
    },
  }
}

/** A number beyond 2^53 has lost digits in parsing, so it identifies no case. */
function caseNumber(id: string | number | null | undefined): string | undefined {
  if (typeof id === 'number') return Number.isSafeInteger(id) ? String(id) : undefined
  return id ? id : undefined
}

function isSameCase(id: string | number | null | undefined, caseId: string): boolean {
  return typeof id === 'number' ? id === Number(caseId) : id == null || id === caseId
}

function caseFrom(caseId: string, read: z.output<typeof MpCaseFields>): ProviderChargeback {
  const listed = (read.payments ?? []).flatMap((entry) => {
    const id = typeof entry === 'object' ? entry.id : entry
    return id ? [String(id)] : []
  })
  return {
    caseId,
    paymentIds: listed.length > 0 || read.payment_id == null ? listed : [read.payment_id],
    currency: read.currency ?? read.currency_id ?? null,
    amount: read.amount ?? { text: null, cents: null },
    reason: read.reason ?? null,
    coverageEligible: read.coverage_eligible ?? read.coverage_elegible ?? null,
    coverageApplied: read.coverage_applied ?? null,
    documentationStatus: read.documentation_status ?? null,
    documentsDueAt: read.date_documentation_deadline ?? null,
    createdAt: read.date_created ?? null,
    updatedAt: read.date_last_updated ?? null,
  }
}
