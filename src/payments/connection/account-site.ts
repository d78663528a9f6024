import type { ClientName } from '../../domain/client-name.ts'
import { erpFromCents, wholeCurrencyOf } from '../../domain/money.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { ProviderError } from '../../provider/provider.ts'
import { keepSite } from '../../repositories/closings/closing-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { type RequestContext, within } from '../operations/request-context.ts'
import { type KnownConnection, withAccess } from './token-keeper.ts'

const readWithinMs = 3_000

/**
 * Whether a charge of this amount is sent without decimals. `site` is the stored one; when it is undefined, it is read at the
 * provider. An amount without cents has the same value in both forms, so without a site it is sent with two decimals.
 *
 * @throws VALIDATION_ERROR for cents that the account's currency does not have, and PROVIDER_ERROR for an amount with cents while
 * the site cannot be read: a currency without cents might round it. In both cases nothing was sent.
 */
export async function isSentWhole(
  deps: PaymentDeps,
  client: ClientName,
  amountCents: number,
  {
    site,
    known,
    context,
  }: {
    site: string | null | undefined
    known: KnownConnection | undefined
    context: RequestContext
  },
): Promise<boolean> {
  const siteId = site === undefined ? await readSite(deps, client, known, context) : site
  const hasCents = amountCents % 100 !== 0
  if (siteId === 'unreadable') {
    if (!hasCents) return false
    throw new AppError('PROVIDER_ERROR', {
      message:
        'The country of the provider account could not be read, so it is not known whether it takes cents; nothing was charged',
      extra: moneyOutcome('chargeNotMade'),
    })
  }
  const currency = wholeCurrencyOf(siteId)
  if (currency !== undefined && hasCents) throw centsRefused(amountCents, currency)
  return currency !== undefined
}

/** The 422 for an amount with cents; nothing was sent. */
function centsRefused(amountCents: number, currency: string): AppError {
  const data = { amount: erpFromCents(amountCents), currency }
  return invalid('amount', { code: 'AMOUNT_NOT_WHOLE', data }, moneyOutcome('chargeImpossible'))
}

async function readSite(
  deps: PaymentDeps,
  client: ClientName,
  known: KnownConnection | undefined,
  context: RequestContext,
): Promise<string | null | 'unreadable'> {
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
    return 'unreadable'
  }
}
