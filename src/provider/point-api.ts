import { z } from 'zod'
import { providerAmount } from '../domain/money.ts'
import { type ProviderClient, segment } from './client.ts'
import {
  cancelEvidenceFrom,
  evidenceFrom,
  foundOrderFrom,
  MpOrder,
  MpOrderName,
  MpOrderSearch,
  paymentOfOrderId,
  refundAnswerFrom,
} from './order-payloads.ts'
import { MpAnything, MpNote, MpNumber, readEntries } from './payload-fields.ts'
import { createPayments } from './payments-api.ts'
import { evidenceFromPayment, refundPayment } from './payments-as-orders.ts'
import type {
  CallOptions,
  NewProviderOrder,
  Provider,
  ProviderTerminal,
  SimulatedEvent,
} from './provider-types.ts'

/**
 * Orders of type point (provider file 2). `applicationId` is the OAuth client id, which is also the provider's application
 * number.
 */
export function createOrders(client: ProviderClient, applicationId: string): Provider['orders'] {
  return {
    ...orderReads(client, applicationId),
    ...orderWrites(client),
    ...orderSearches(client, applicationId),
  }
}

function readOrder(
  client: ProviderClient,
  token: string,
  mpOrderId: string,
  options: CallOptions | undefined,
) {
  return client.call({
    operation: 'order.read',
    method: 'GET',
    path: orderPath(mpOrderId),
    token,
    schema: MpOrder,
    accept: (order) => sameId(order, mpOrderId),
    options,
  })
}

function orderReads(
  client: ProviderClient,
  applicationId: string,
): Pick<Provider['orders'], 'get' | 'find'> {
  const payments = createPayments(client)
  return {
    async get(token, mpOrderId, options) {
      const paymentId = paymentOfOrderId(mpOrderId)
      if (paymentId !== undefined) {
        return evidenceFromPayment(await payments.get(token, paymentId, options))
      }
      return evidenceFrom(await readOrder(client, token, mpOrderId, options))
    },
    async find(token, mpOrderId, options) {
      return foundOrderFrom(await readOrder(client, token, mpOrderId, options), applicationId)
    },
  }
}

function orderWrites(
  client: ProviderClient,
): Pick<Provider['orders'], 'create' | 'cancel' | 'refund' | 'simulate'> {
  return {
    async create(token, key, order, options) {
      return evidenceFrom(
        await client.call({
          operation: 'order.create',
          method: 'POST',
          path: '/v1/orders',
          token,
          key,
          body: newOrderBody(order),
          schema: MpOrder,
          options,
        }),
      )
    },
    async cancel(token, mpOrderId, key, options) {
      return cancelEvidenceFrom(
        await client.call({
          operation: 'order.cancel',
          method: 'POST',
          path: `${orderPath(mpOrderId)}/cancel`,
          token,
          key,
          // Cancels also an order that is on the terminal. Ignored for one in `created`, and where the device does not
          // support it.
          headers: { 'x-allow-cancelable-status': 'at_terminal' },
          schema: MpOrder,
          accept: (order) => sameId(order, mpOrderId),
          options,
        }),
      )
    },
    async refund(token, mpOrderId, key, partial, options) {
      const paymentId = paymentOfOrderId(mpOrderId)
      if (paymentId !== undefined) {
        return refundPayment(client, token, paymentId, key, partial, options)
      }
      return refundAnswerFrom(
        await client.call({
          operation: 'order.refund',
          method: 'POST',
          path: `${orderPath(mpOrderId)}/refund`,
          token,
          key,
          ...(partial !== null && { body: partialRefundBody(partial) }),
          schema: MpOrder,
          accept: (order) => sameId(order, mpOrderId),
          options,
        }),
      )
    },
    async simulate(token, mpOrderId, event, options) {
      await client.call({
        operation: 'order.simulate',
        method: 'POST',
        path: `${orderPath(mpOrderId)}/events`,
        token,
        body: eventBody(event),
        schema: MpAnything,
        options,
      })
    },
  }
}

function orderSearches(
  client: ProviderClient,
  applicationId: string,
): Pick<Provider['orders'], 'search' | 'list'> {
  const searchOrders = async (
    token: string,
    query: Record<string, string | number | undefined>,
    options: CallOptions | undefined,
  ) => {
    const found = await client.call({
      operation: 'order.search',
      method: 'GET',
      path: '/v1/orders',
      query: { type: 'point', page_size: 100, ...query },
      token,
      schema: MpOrderSearch,
      options,
    })
    const { items, unreadable } = readEntries(MpOrder, found.data)
    return {
      orders: items.map((order) => foundOrderFrom(order, applicationId)),
      unreadable: unreadable.map((row) => MpOrderName.parse(row)),
      pages: found.paging?.total_pages ?? null,
    }
  }
  return {
    // The names are those of the official SDK (`clients/order/search`), where both dates are required.
    async search(token, { externalReference, from, to }, options) {
      const dates = { begin_date: from.toISOString(), end_date: to.toISOString() }
      const query = { ...dates, external_reference: externalReference }
      const { orders, unreadable } = await searchOrders(token, query, options)
      const mayBeIt = unreadable.filter(
        ({ external_reference: reference }) => reference == null || reference === externalReference,
      )
      return { orders, unreadable: mayBeIt.length }
    },
    async list(token, { from, to, status }, options) {
      const dates = { begin_date: from.toISOString(), end_date: to.toISOString() }
      const { unreadable, ...found } = await searchOrders(token, { ...dates, status }, options)
      return { ...found, unreadable: unreadable.map(({ id }) => id ?? null) }
    },
  }
}

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
function partialRefundBody(partial: {
  paymentId: string
  amountCents: number
  isWholeAmount?: boolean
}): Record<string, unknown> {
  const amount = providerAmount(partial.amountCents, partial.isWholeAmount ?? false)
  return { transactions: [{ id: partial.paymentId, amount }] }
}

/** The body of a simulated event (file 2.5). */
function eventBody(event: SimulatedEvent): Record<string, unknown> {
  return {
    status: event.status,
    ...(event.paymentMethodType != null && { payment_method_type: event.paymentMethodType }),
    ...(event.installments != null && { installments: event.installments }),
    ...(event.paymentMethodId != null && { payment_method_id: event.paymentMethodId }),
    ...(event.statusDetail != null && { status_detail: event.statusDetail }),
  }
}

function orderPath(mpOrderId: string): string {
  return `/v1/orders/${segment(mpOrderId)}`
}

/** Ids are upper case, but webhooks sign them in lower case. */
function sameId(order: MpOrder, mpOrderId: string): boolean {
  return order.id.toUpperCase() === mpOrderId.toUpperCase()
}

const MpTerminal = z.object({
  id: z.string().min(1),
  pos_id: MpNote,
  store_id: MpNote,
  external_pos_id: MpNote,
  operating_mode: z.string().nullish(),
})

/** A list without a readable entry does not prove that there is no terminal. */
const MpTerminalList = z
  .object({
    data: z.object({ terminals: z.array(z.unknown()) }),
    paging: z.object({ total: MpNumber.nullish() }).nullish(),
  })
  .transform(({ data, paging }, context) => {
    const rows = data.terminals.length
    const { items } = readEntries(MpTerminal, data.terminals)
    if (items.length === 0 && rows > 0) {
      context.addIssue({ code: 'custom', message: 'no terminal can be read' })
    }
    return { terminals: items, rows, total: paging?.total ?? rows }
  })

/** Terminals (provider file 5). The API cannot pair one: that is done on the device. */
export function createTerminals(client: ProviderClient): Provider['terminals'] {
  return {
    async list(token, { mpPosId, mpStoreId, limit, offset }, options) {
      const { terminals, ...page } = await client.call({
        operation: 'terminal.list',
        method: 'GET',
        path: '/terminals/v1/list',
        query: { limit, offset, store_id: mpStoreId, pos_id: mpPosId },
        token,
        schema: MpTerminalList,
        options,
      })
      return { terminals: terminals.map(terminalFrom), ...page }
    },
    // The provider accepts one terminal per call; the device must be restarted to apply it.
    async setMode(token, terminalId, mode, options) {
      await client.call({
        operation: 'terminal.mode',
        method: 'PATCH',
        path: '/terminals/v1/setup',
        token,
        body: { terminals: [{ id: terminalId, operating_mode: mode }] },
        schema: MpAnything,
        options,
      })
    },
  }
}

function terminalFrom(terminal: z.infer<typeof MpTerminal>): ProviderTerminal {
  return {
    id: terminal.id,
    mpPosId: terminal.pos_id ?? null,
    mpStoreId: terminal.store_id ?? null,
    externalPosId: terminal.external_pos_id ?? null,
    operatingMode: terminal.operating_mode === 'PDV' ? 'PDV' : 'STANDALONE',
    providerMode: terminal.operating_mode ?? 'UNDEFINED',
  }
}
