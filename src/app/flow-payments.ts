import { asClientName } from '../domain/client-name.ts'
import { AppError, errorCatalogue } from '../errors/app-error.ts'
import { reasonOfCode } from '../flows/control-errors.ts'
import type { PaymentsOutcome, PaymentsPort } from '../flows/destinations/payments-port.ts'
import type { Actor, PaymentDeps } from '../payments/deps.ts'
import { serviceActor } from '../payments/request-context.ts'
import { removePos, removeStore } from '../payments/stores/manage-stores.ts'
import { upsertPos, upsertStore } from '../payments/stores/upsert-store.ts'
import { findClient } from '../repositories/connection/clients.ts'

/** What flows may do on the payment side, by the payment side's rules and with its audit log. */
export function createPaymentsPort(deps: PaymentDeps): PaymentsPort {
  const attempt = async (
    client: string,
    work: (client: ReturnType<typeof asClientName>, actor: Actor) => Promise<unknown>,
  ): Promise<PaymentsOutcome> => {
    try {
      if (!(await findClient(deps.database.db, client))) {
        // The client is created when the shop connects.
        const why = { code: 'NO_CLIENT', data: { client } } as const
        return { ok: false, retryable: true, outage: true, why }
      }
      await work(asClientName(client), serviceActor(deps.now()))
      return { ok: true }
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return outcomeOf(error)
    }
  }
  /** A missing store or box counts as deleted. */
  const unlessGone = (error: unknown) => {
    if (!(error instanceof AppError) || error.code !== 'NOT_FOUND') throw error
  }
  return {
    upsertStore: (client, { pos, ...store }) =>
      attempt(client, (name, actor) => upsertStore(deps, name, { store, pos }, actor)),
    addPos: (client, storeExternalId, pos) =>
      attempt(client, (name, actor) => upsertPos(deps, name, storeExternalId, pos, actor)),
    deletePos: (client, storeExternalId, posExternalId) =>
      attempt(client, (name, actor) =>
        removePos(deps, name, storeExternalId, posExternalId, actor).catch(unlessGone),
      ),
    deleteStore: (client, externalId) =>
      attempt(client, (name, actor) =>
        removeStore(deps, name, externalId, actor).catch(unlessGone),
      ),
  }
}

/**
 * Another attempt helps when a connection is missing, a store is locked by another request, or a store is not created
 * yet. It does not help when the content is wrong.
 */
function outcomeOf(error: AppError): PaymentsOutcome {
  const details = error.details?.map(({ path, message }) => `${path}: ${message}`).join('; ')
  const said =
    details ?? (error.message === errorCatalogue[error.code].text ? undefined : error.message)
  const isConnection = error.code === 'OAUTH_NOT_CONNECTED' || error.code === 'CONNECTION_LOST'
  const isTrouble = error.status >= 500 || error.code === 'RATE_LIMITED'
  const { retryAfterSeconds } = error.extra
  return {
    ok: false,
    retryable:
      isConnection ||
      (isTrouble && error.code !== 'PROVIDER_REJECTED') ||
      error.code === 'CONFLICT' ||
      error.code === 'CHARGES_NOT_CLOSED' ||
      error.code === 'NOT_FOUND',
    why: { code: 'PAYMENTS_REFUSED', data: { what: reasonOfCode(error.code), said } },
    outage: isConnection || isTrouble,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  }
}
