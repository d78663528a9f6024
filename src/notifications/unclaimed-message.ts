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
