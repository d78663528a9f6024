import type { EndpointRow, StopReason } from '../repositories/events/event-endpoints.ts'
import { textIn } from '../texts/texts.ts'
import type { Locale, MessageText, Notification } from './channel.ts'
import { firstPlaces, oneLine, plainText, toMessages } from './message-parts.ts'

/** Endpoints that events are no longer sent to, in the stored form of a message. */
export type StoppedEndpointsMessage = ReturnType<typeof composeEndpointMessages>[number]

/** `rows`: endpoints that no person stopped. */
export function composeEndpointMessages(rows: readonly EndpointRow[], now: Date) {
  const timeOf = ({ stopped_at: at }: EndpointRow) => at ?? now
  return toMessages('endpoints', 'endpoints_stopped', rows, {
    now,
    timeOf,
    view: (row) => ({
      id: row.id,
      client: row.client,
      // Of the address: its path may contain a secret.
      host: new URL(row.url).host,
      reason: row.stop_reason as Exclude<StopReason, 'person'>,
      stopped_at: timeOf(row).toISOString(),
    }),
  })
}

/** The message as channels send it. */
export function endpointNotification(message: StoppedEndpointsMessage): Notification {
  const { id, at, endpoints } = message
  return {
    id,
    at,
    text: (locale) => textOf(message, locale),
    event: { type: 'endpoints.stopped', data: { endpoints } },
  }
}

function textOf({ kind, endpoints }: StoppedEndpointsMessage, locale: Locale): MessageText {
  const where = firstPlaces(endpoints.map(({ client }) => client))
  const title = oneLine(
    `${where}: ${textIn(locale, `message.${kind}`, { count: endpoints.length })}`,
  )
  const facts = endpoints.map(({ client, host, reason }) => {
    const why = textIn(locale, `message.endpoint.reason.${reason}`)
    return oneLine(`${client}: ${textIn(locale, 'message.endpoint.line', { host, reason: why })}`)
  })
  return {
    ...plainText(title, [...facts, textIn(locale, 'message.endpoint.help')]),
    advice: [textIn(locale, 'message.endpoint.look')],
    command: 'POST /events/endpoints/{id}/resume',
  }
}
