import { pointFromCents } from '../domain/money.ts'
import type { OrphanRow } from '../repositories/unclaimed-payments/unclaimed-queries.ts'
import type { Locale, MessageText, Notification } from './channel.ts'
import { clockTime, firstPlaces, oneLine, plainText, toMessages } from './message-parts.ts'

/** Charges without an order, or their outcome, in the stored form of a message. */
export type UnclaimedMessage = {
  id: string
  at: string
  kind: 'orphans' | 'orphans_settled'
  orphans: {
    id: string
    client: string
    caja_id: string | null
    payment_id: string
    /** With a point and two decimals. */
    amount: string
    /** ISO 8601. */
    at: string
    state: OrphanRow['state']
    /** The ERP's reference of the order that this is a further payment of. */
    surplus_of?: string
  }[]
}

export function composeUnclaimedMessages(
  kind: UnclaimedMessage['kind'],
  rows: readonly OrphanRow[],
  now: Date,
  references: ReadonlyMap<string, string>,
): UnclaimedMessage[] {
  const timeOf = (row: OrphanRow) => row.sold_at
  return toMessages('orphans', kind, rows, { now, timeOf }).map(({ rows: named, ...message }) => ({
    ...message,
    orphans: named.map((orphan) => ({
      ...(orphan.surplus_of !== null && {
        surplus_of: references.get(orphan.surplus_of) ?? orphan.surplus_of,
      }),
      id: orphan.id,
      client: orphan.client,
      caja_id: orphan.caja_id,
      payment_id: orphan.payment_id,
      amount: pointFromCents(orphan.amount_cents),
      at: orphan.sold_at.toISOString(),
      state: orphan.state,
    })),
  }))
}

type Words = {
  box(client: string, box: string | null): string
  found(count: number): string
  settled(count: number): string
  line(payment: string, amount: string, time: string): string
  further(reference: string): string
  states: Record<OrphanRow['state'], string>
  help: string
  look: string
}

const languages: Record<Locale, Words> = {
  es: {
    box: (client, box) => (box === null ? client : `${client}, caja ${box}`),
    found: (count) => (count === 1 ? '1 pago sin venta' : `${count} pagos sin venta`),
    settled: (count) =>
      count === 1 ? '1 pago sin venta resuelto' : `${count} pagos sin venta resueltos`,
    line: (payment, amount, time) => `pago ${payment}, $ ${amount.replace('.', ',')}, ${time}`,
    further: (reference) => `, otro pago del cobro ${reference}`,
    states: {
      open: 'sin resolver',
      adopted: 'registrado como venta',
      refunded: 'devuelto',
      dismissed: 'descartado',
    },
    help: 'Mercado Pago tiene estos pagos de una caja y no hay ninguna venta que les corresponda. Por ejemplo: el importe se tecleó en la terminal o el cliente pagó dos veces.',
    look: 'Registralo como venta, devolvelo o descartalo en el panel (/dashboard, Cierres) o con la API:',
  },
  en: {
    box: (client, box) => (box === null ? client : `${client}, box ${box}`),
    found: (count) => (count === 1 ? '1 unmatched payment' : `${count} unmatched payments`),
    settled: (count) =>
      count === 1 ? '1 unmatched payment settled' : `${count} unmatched payments settled`,
    line: (payment, amount, time) => `payment ${payment}, $ ${amount}, ${time}`,
    further: (reference) => `, another payment of the charge ${reference}`,
    states: {
      open: 'open',
      adopted: 'recorded as a sale',
      refunded: 'refunded',
      dismissed: 'dismissed',
    },
    help: 'Mercado Pago has these payments of a box, and no sale matches them. Examples: the amount was typed into the terminal, or a customer paid twice.',
    look: 'Record it as a sale, refund it or dismiss it on the dashboard (/dashboard, Closings) or with the API:',
  },
}

/** The message as channels send it. */
export function unclaimedNotification(message: UnclaimedMessage): Notification {
  const { id, at, kind, orphans } = message
  return {
    id,
    at,
    text: (locale) => textOf(message, locale),
    event: { type: kind === 'orphans' ? 'orphans.found' : 'orphans.settled', data: { orphans } },
  }
}

function textOf({ kind, orphans }: UnclaimedMessage, locale: Locale): MessageText {
  const words = languages[locale]
  const isOver = kind === 'orphans_settled'
  const where = firstPlaces(orphans.map((one) => words.box(one.client, one.caja_id)))
  const howMany = isOver ? words.settled(orphans.length) : words.found(orphans.length)
  const facts = orphans.map((orphan) => {
    const line = words.line(orphan.payment_id, orphan.amount, clockTime(orphan.at))
    const { surplus_of: reference } = orphan
    const further = reference === undefined ? '' : words.further(reference)
    const end = isOver ? `: ${words.states[orphan.state]}` : ''
    return oneLine(`${words.box(orphan.client, orphan.caja_id)}: ${line}${further}${end}`)
  })
  const title = oneLine(`${where}: ${howMany}`)
  if (isOver) return plainText(title, facts)
  return {
    ...plainText(title, [...facts, words.help]),
    advice: [words.look],
    command: 'GET /orphans?state=open',
  }
}
