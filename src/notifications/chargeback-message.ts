import type { ChargebackState } from '../domain/chargeback.ts'
import { pointFromCents } from '../domain/money.ts'
import type { ChargebackRow } from '../repositories/chargebacks/chargeback-queries.ts'
import type { Locale, MessageText, Notification } from './channel.ts'
import { firstPlaces, oneLine, plainText, toMessages } from './message-parts.ts'

/** Charge-backs that were opened, wait for documents or were decided, in the stored form of a message. */
export type ChargebackMessage = {
  id: string
  at: string
  kind: 'chargebacks_opened' | 'chargebacks_due' | 'chargebacks_decided'
  chargebacks: {
    id: string
    client: string
    caja_id: string | null
    case_id: string | null
    payment_id: string
    order_id: string | null
    /** With a point and two decimals; null if the provider does not return it. */
    amount: string | null
    currency: string | null
    state: ChargebackState
    /** ISO 8601. */
    documents_due_at: string | null
  }[]
}

export function composeChargebackMessages(
  kind: ChargebackMessage['kind'],
  rows: readonly ChargebackRow[],
  now: Date,
): ChargebackMessage[] {
  const timeOf = (row: ChargebackRow) => row.found_at
  return toMessages('chargebacks', kind, rows, { now, timeOf }).map(
    ({ rows: named, ...message }) => ({
      ...message,
      chargebacks: named.map((row) => ({
        id: row.id,
        client: row.client,
        caja_id: row.caja_id,
        case_id: row.case_id,
        payment_id: row.payment_id,
        order_id: row.order_id,
        amount: row.amount_cents === null ? null : pointFromCents(row.amount_cents),
        currency: row.currency,
        state: row.state,
        documents_due_at: row.documents_due_at?.toISOString() ?? null,
      })),
    }),
  )
}

type Words = {
  box(client: string, box: string | null): string
  titles: Record<ChargebackMessage['kind'], (count: number) => string>
  line(payment: string, caseId: string | null, amount: string | null): string
  due(time: string): string
  states: Record<ChargebackState, string>
  help: Record<ChargebackMessage['kind'], string>
  look: string
}

const languages: Record<Locale, Words> = {
  es: {
    box: (client, box) => (box === null ? client : `${client}, caja ${box}`),
    titles: {
      chargebacks_opened: (count) =>
        count === 1 ? '1 contracargo nuevo' : `${count} contracargos nuevos`,
      chargebacks_due: (count) =>
        count === 1
          ? '1 contracargo espera documentos'
          : `${count} contracargos esperan documentos`,
      chargebacks_decided: (count) =>
        count === 1 ? '1 contracargo resuelto' : `${count} contracargos resueltos`,
    },
    line: (payment, caseId, amount) =>
      `pago ${payment}${caseId === null ? '' : `, caso ${caseId}`}${amount === null ? '' : `, $ ${amount.replace('.', ',')}`}`,
    due: (time) => `documentos hasta ${time}`,
    states: {
      open: 'abierto',
      won: 'ganado: el comercio conserva el dinero',
      lost: 'perdido: el comprador tiene el dinero',
      unknown: 'sin datos del caso',
    },
    help: {
      chargebacks_opened:
        'Un comprador desconoció estos pagos en su banco. Mercado Pago retiene el dinero hasta decidir. La venta sigue siendo válida: no la devuelvas.',
      chargebacks_due:
        'Subí los documentos de la venta en el panel de Mercado Pago antes del vencimiento. Después no los acepta.',
      chargebacks_decided: 'Mercado Pago decidió estos casos.',
    },
    look: 'Mirá los casos en el panel (/dashboard, Cierres) o con la API:',
  },
  en: {
    box: (client, box) => (box === null ? client : `${client}, box ${box}`),
    titles: {
      chargebacks_opened: (count) =>
        count === 1 ? '1 new charge-back' : `${count} new charge-backs`,
      chargebacks_due: (count) =>
        count === 1
          ? '1 charge-back waits for documents'
          : `${count} charge-backs wait for documents`,
      chargebacks_decided: (count) =>
        count === 1 ? '1 charge-back decided' : `${count} charge-backs decided`,
    },
    line: (payment, caseId, amount) =>
      `payment ${payment}${caseId === null ? '' : `, case ${caseId}`}${amount === null ? '' : `, $ ${amount}`}`,
    due: (time) => `documents until ${time}`,
    states: {
      open: 'open',
      won: 'won: the shop keeps the money',
      lost: 'lost: the buyer has the money',
      unknown: 'case unknown',
    },
    help: {
      chargebacks_opened:
        'Buyers disputed these payments at their banks. Mercado Pago keeps the money until it decides. The sale stays valid: do not refund it.',
      chargebacks_due:
        "Upload the documents of the sale in Mercado Pago's panel before the deadline. Mercado Pago accepts none later.",
      chargebacks_decided: 'Mercado Pago decided these cases.',
    },
    look: 'See the cases on the dashboard (/dashboard, Closings) or with the API:',
  },
}

const events = {
  chargebacks_opened: 'chargebacks.opened',
  chargebacks_due: 'chargebacks.documents_due',
  chargebacks_decided: 'chargebacks.decided',
} as const satisfies Record<ChargebackMessage['kind'], string>

/** The message as channels send it. */
export function chargebackNotification(message: ChargebackMessage): Notification {
  const { id, at, kind, chargebacks } = message
  return {
    id,
    at,
    text: (locale) => textOf(message, locale),
    event: { type: events[kind], data: { chargebacks } },
  }
}

function textOf({ kind, chargebacks }: ChargebackMessage, locale: Locale): MessageText {
  const words = languages[locale]
  const where = firstPlaces(chargebacks.map((one) => words.box(one.client, one.caja_id)))
  const title = oneLine(`${where}: ${words.titles[kind](chargebacks.length)}`)
  const facts = chargebacks.map((one) => {
    const line = words.line(one.payment_id, one.case_id, one.amount)
    const time = one.documents_due_at
    const isWaiting = time !== null && (one.state === 'open' || one.state === 'unknown')
    const due = isWaiting ? `, ${words.due(`${time.slice(0, 16).replace('T', ' ')} UTC`)}` : ''
    return oneLine(
      `${words.box(one.client, one.caja_id)}: ${line}: ${words.states[one.state]}${due}`,
    )
  })
  return {
    ...plainText(title, [...facts, words.help[kind]]),
    advice: [words.look],
    command: 'GET /chargebacks',
  }
}
