import { createHash } from 'node:crypto'
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

/** The body of a new POS (file 4.1 and 4.4). v2 accepts one of the two store references, as a string. */
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
 * A POS name that the provider accepts: v1 under 45 characters. v2 up to 45 of letters, digits, `-`, `_` and inner
 * spaces; accents are dropped. Undefined when nothing is left.
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

const longestReference = 64
const plainReference = /^[A-Za-z0-9_-]{1,64}$/

/** The ending of an encoded text; only this file makes it. */
const encodedEnding = /_x[0-9a-f]{32}(?:-[0-9]+)?$/

/**
 * The `external_reference` sent to the provider, in `[A-Za-z0-9_-]{1,64}`.
 *
 * - Attempt 1 of a text in that alphabet is the text itself.
 * - Attempt n from 2 on ends in `-n`: "A" twice gives `A` and `A-2`.
 * - Any other text, one that is too long for its ending and one that ends like an encoded text becomes readable
 * characters, `_x` and 128 bits of SHA-256 over the text.
 *
 * Different texts never collide at attempt 1, nor do different attempts of one text. The second "A" does collide with
 * an ERP's own "A-2". The database keeps references unique per account, so the later order uses its next attempt.
 */
export function encodeReference(text: string, attempt: number): string {
  if (!Number.isSafeInteger(attempt) || attempt < 1) {
    throw new RangeError('attempt must be a whole number from 1')
  }
  const ending = attempt === 1 ? '' : `-${attempt}`
  const room = longestReference - ending.length
  const keep = plainReference.test(text) && !encodedEnding.test(text) && text.length <= room
  const base = keep
    ? text
    : `${readable(text, /[^A-Za-z0-9_-]+/g, '-').slice(0, 12)}_x${digest(text, 32)}`
  return base + ending
}

/** The attempt of this text that the reference means; undefined when it means none. */
export function attemptOfReference(reference: string, text: string): number | undefined {
  const numbered = splitReference(reference)
  const attempts = numbered ? [1, numbered.attempt] : [1]
  return attempts.find((attempt) => encodeReference(text, attempt) === reference)
}

/** The base and number of a reference that may be a later attempt. "A-2" may also be a text of its own. */
export function splitReference(reference: string): { base: string; attempt: number } | undefined {
  const [, base, digits] = /^(.+)-([1-9][0-9]{0,8})$/.exec(reference) ?? []
  const attempt = Number(digits)
  return base === undefined || attempt < 2 ? undefined : { base, attempt }
}

/** Whether only this service can have made the reference: it ends like an encoded text. */
export function isEncodedReference(reference: string): boolean {
  return encodedEnding.test(reference)
}

/**
 * The `external_id` of a store (`max` 60) or POS (39): letters and digits only. A text of only these stays unchanged.
 * Any other becomes readable characters, `x` and 96 bits of SHA-256 over the text. Different texts give different ids,
 * unless those bits collide.
 */
export function encodeExternalId(text: string, max: number): string {
  const keep = /^[A-Za-z0-9]+$/.test(text) && text.length <= max && !/x[0-9a-f]{24}$/.test(text)
  if (keep) return text
  return `${readable(text, /[^A-Za-z0-9]+/g, '').slice(0, max - 25)}x${digest(text, 24)}`
}

function readable(text: string, others: RegExp, instead: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').replace(others, instead)
}

/** UTF-16 keeps even malformed texts different; UTF-8 would make their broken halves equal. */
function digest(text: string, hexDigits: number): string {
  return createHash('sha256').update(text, 'utf16le').digest('hex').slice(0, hexDigits)
}
