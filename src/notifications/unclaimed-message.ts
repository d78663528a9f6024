import { pointFromCents } from '../domain/money.ts'
import type { OrphanRow } from '../repositories/unclaimed-payments/unclaimed-queries.ts'
import { textIn } from '../texts/texts.ts'
import type { Locale, MessageText, Notification } from './channel.ts'
import {
  boxName,
  clockTime,
  firstPlaces,
  localPoint,
  oneLine,
  plainText,
  toMessages,
} from './message-parts.ts'

/** Charges without an order, or their outcome, in the stored form of a message. */
export type UnclaimedMessage = ReturnType<typeof composeUnclaimedMessages>[number]

/** `references`: those of the ERP, by the id of the order. */
export function composeUnclaimedMessages(
  kind: 'orphans' | 'orphans_settled',
  rows: readonly OrphanRow[],
  now: Date,
  references: ReadonlyMap<string, string>,
) {
  return toMessages('orphans', kind, rows, {
    now,
    timeOf: (row) => row.sold_at,
    view: (orphan) => ({
      // Of a further payment: the order.
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
    }),
  })
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
  const isOver = kind === 'orphans_settled'
  const where = firstPlaces(orphans.map((one) => boxName(one, locale)))
  const howMany = textIn(locale, isOver ? 'message.unclaimed.settled' : 'message.unclaimed.found', {
    count: orphans.length,
  })
  const facts = orphans.map((orphan) => {
    const line = textIn(locale, 'message.unclaimed.line', {
      payment: orphan.payment_id,
      amount: localPoint(orphan.amount, locale),
      time: clockTime(orphan.at),
      reference: orphan.surplus_of,
    })
    const end = isOver ? `: ${textIn(locale, `message.unclaimed.state.${orphan.state}`)}` : ''
    return oneLine(`${boxName(orphan, locale)}: ${line}${end}`)
  })
  const title = oneLine(`${where}: ${howMany}`)
  if (isOver) return plainText(title, facts)
  return {
    ...plainText(title, [...facts, textIn(locale, 'message.unclaimed.help')]),
    advice: [textIn(locale, 'message.unclaimed.look')],
    command: 'GET /orphans?state=open',
  }
}
