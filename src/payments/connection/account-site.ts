import type { ClientName } from '../../domain/client-name.ts'
import { erpFromCents } from '../../domain/money.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { ProviderError } from '../../provider/provider.ts'
import { keepSite } from '../../repositories/closings/closing-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { type RequestContext, within } from '../request-context.ts'
import { type KnownConnection, withAccess } from './access.ts'

const readWithinMs = 3_000

/** The 422 for an amount with cents; nothing was sent. */
export function centsRefused(amountCents: number, currency: string): AppError {
  const data = { amount: erpFromCents(amountCents), currency }
  return invalid('amount', { code: 'AMOUNT_NOT_WHOLE', data }, moneyOutcome('chargeImpossible'))
}

/**
 * Reads the site of an account at the provider, and keeps it. Null when the provider names none, and when it cannot be read: an
 * amount without cents has the same value in both forms, so it is sent with two decimals.
 *
 * @throws PROVIDER_ERROR for an amount with cents while the site cannot be read: a currency without cents might round it.
 * Nothing was sent.
 */
export async function readSite(
  deps: PaymentDeps,
  client: ClientName,
  amountCents: number,
  known: KnownConnection | undefined,
  context: RequestContext,
): Promise<string | null> {
  const options = within(deps, context, readWithinMs)
  try {
    return await withAccess(
      deps,
      client,
      async ({ token, mpUserId }) => {
        const { siteId } = await deps.provider.users.me(token, options)
        await keepSite(deps.database.db, { mpUserId, siteId, at: deps.now() })
        return siteId
      },
      { known, untilMs: context.untilMs },
    )
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    deps.log.warn({ client, err: error }, 'country of a provider account not read')
    if (amountCents % 100 === 0) return null
    throw new AppError('PROVIDER_ERROR', {
      message:
        'The country of the provider account could not be read, so it is not known whether it takes cents; nothing was charged',
      extra: moneyOutcome('chargeNotMade'),
    })
  }
}
