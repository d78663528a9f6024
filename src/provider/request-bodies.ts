import { providerAmount } from '../domain/money.ts'
import type {
  NewProviderOrder,
  NewProviderPos,
  NewProviderStore,
  SimulatedEvent,
} from './provider-types.ts'

/** The body of POST /v1/orders (file 2.1): optional members are left out, never null. */
export function newOrderBody(order: NewProviderOrder): Record<string, unknown> {
  return {
    type: 'point',
    external_reference: order.externalReference,
    expiration_time: `PT${order.expirationMinutes}M`,
    transactions: {
      payments: [{ amount: providerAmount(order.amountCents, order.isWholeAmount ?? false) }],
    },
    config: {
      point: {
        terminal_id: order.terminalId,
        print_on_terminal: order.printTicket ? 'seller_ticket' : 'no_ticket',
        ...(order.ticketNumber !== null && { ticket_number: order.ticketNumber }),
      },
      ...(order.paymentMethod !== 'all' && {
        payment_method: { default_type: order.paymentMethod },
      }),
    },
    ...(order.description !== null && { description: order.description }),
  }
}

/** The body of a partial refund (file 2.4). */
export function partialRefundBody(partial: {
  paymentId: string
  amountCents: number
  isWholeAmount?: boolean
}): Record<string, unknown> {
  const amount = providerAmount(partial.amountCents, partial.isWholeAmount ?? false)
  return { transactions: [{ id: partial.paymentId, amount }] }
}

/** The body of a simulated event (file 2.5). */
export function eventBody(event: SimulatedEvent): Record<string, unknown> {
  return {
    status: event.status,
    ...(event.paymentMethodType != null && { payment_method_type: event.paymentMethodType }),
    ...(event.installments != null && { installments: event.installments }),
    ...(event.paymentMethodId != null && { payment_method_id: event.paymentMethodId }),
    ...(event.statusDetail != null && { status_detail: event.statusDetail }),
  }
}

/** The body of a new store (file 3.1). */
export function newStoreBody(store: NewProviderStore): Record<string, unknown> {
  const { location } = store
  return {
    name: store.name,
    external_id: store.externalId,
    location: {
      street_name: location.streetName,
      street_number: location.streetNumber,
      city_name: location.cityName,
      state_name: location.stateName,
      latitude: location.latitude,
      longitude: location.longitude,
      ...(location.reference !== null && { reference: location.reference }),
    },
  }
}

/** The body of a new POS (file 4.1 and 4.4). v2 takes one of the two store references and wants it as a string. */
export function newPosBody(pos: NewProviderPos, posApi: 'v1' | 'v2'): Record<string, unknown> {
  const common = {
    name: reducePosName(pos.name, posApi) ?? pos.externalId,
    external_id: pos.externalId,
    store_id: pos.mpStoreId,
  }
  if (posApi === 'v2') return common
  return {
    ...common,
    fixed_amount: true,
    ...(pos.mpExternalStoreId !== null && { external_store_id: pos.mpExternalStoreId }),
  }
}

/**
 * A POS name as the provider takes it: v1 under 45 characters, v2 up to 45 of letters, digits, `-`, `_` and inner spaces,
 * where accents are dropped. undefined when nothing is left.
 */
export function reducePosName(name: string, posApi: 'v1' | 'v2'): string | undefined {
  const plain =
    posApi === 'v1'
      ? name.replace(/\p{C}/gu, ' ')
      : name
          .normalize('NFKD')
          .replace(/\p{M}/gu, '')
          .replace(/[^A-Za-z0-9_-]+/g, ' ')
  const short = plain
    .trim()
    .slice(0, posApi === 'v1' ? 44 : 45)
    .replace(/\p{Cs}$/u, '')
    .trim()
  return short === '' ? undefined : short
}
