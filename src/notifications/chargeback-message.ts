import { pointFromCents } from '../domain/money.ts'
import type { ChargebackRow } from '../repositories/chargebacks/chargeback-queries.ts'
import { textIn } from '../texts/texts.ts'
import type { Locale, MessageText, Notification } from './channel.ts'
import {
  boxName,
  firstPlaces,
  localPoint,
  oneLine,
  plainText,
  toMessages,
} from './message-parts.ts'

const events = {
  chargebacks_opened: 'chargebacks.opened',
  chargebacks_due: 'chargebacks.documents_due',
  chargebacks_decided: 'chargebacks.decided',
} as const

/** Charge-backs that were opened, wait for documents or were decided, in the stored form of a message. */
export type ChargebackMessage = ReturnType<typeof composeChargebackMessages>[number]

export function composeChargebackMessages(
  kind: keyof typeof events,
  rows: readonly ChargebackRow[],
  now: Date,
) {
  return toMessages('chargebacks', kind, rows, {
    now,
    timeOf: (row) => row.found_at,
    view: (row) => ({
      id: row.id,
      client: row.client,
      caja_id: row.caja_id,
      case_id: row.case_id,
      payment_id: row.payment_id,
      order_id: row.order_id,
      /** With a point and two decimals; null if the provider does not return it. */
      amount: row.amount_cents === null ? null : pointFromCents(row.amount_cents),
      currency: row.currency,
      state: row.state,
      documents_due_at: row.documents_due_at?.toISOString() ?? null,
    }),
  })
}

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
  const where = firstPlaces(chargebacks.map((one) => boxName(one, locale)))
  const title = oneLine(
    `${where}: ${textIn(locale, `message.${kind}`, { count: chargebacks.length })}`,
  )
  const facts = chargebacks.map((one) => {
    const line = textIn(locale, 'message.chargeback.line', {
      payment: one.payment_id,
      case: one.case_id ?? undefined,
      amount: one.amount === null ? undefined : localPoint(one.amount, locale),
    })
    const until = one.documents_due_at
    const isWaiting = until !== null && (one.state === 'open' || one.state === 'unknown')
    const time = `${until?.slice(0, 16).replace('T', ' ')} UTC`
    const due = isWaiting ? `, ${textIn(locale, 'message.chargeback.due', { time })}` : ''
    const state = textIn(locale, `message.chargeback.state.${one.state}`)
    return oneLine(`${boxName(one, locale)}: ${line}: ${state}${due}`)
  })
  return {
    ...plainText(title, [...facts, textIn(locale, `message.${kind}.help`)]),
    advice: [textIn(locale, 'message.chargeback.look')],
    command: 'GET /chargebacks',
  }
}
