import type { EndpointRow, StopReason } from '../repositories/events/event-endpoints.ts'
import { textIn } from '../texts/texts.ts'
import type { Locale, MessageText, Notification } from './channel.ts'
import { firstPlaces, oneLine, plainText, toMessages } from './message-parts.ts'

/** Endpoints that events are no longer sent to, in the stored form of a message. */
export type StoppedEndpointsMessage = {
  id: string
  at: string
  kind: 'endpoints_stopped'
  endpoints: {
    id: string
    client: string
    /** Of the address: its path may contain a secret. */
    host: string
    reason: Exclude<StopReason, 'person'>
    /** ISO 8601. */
    stopped_at: string
  }[]
}

/** `rows`: endpoints that no person stopped. */
export function composeEndpointMessages(
  rows: readonly EndpointRow[],
  now: Date,
): StoppedEndpointsMessage[] {
  const timeOf = ({ stopped_at: at }: EndpointRow) => at ?? now
  return toMessages('endpoints', 'endpoints_stopped' as const, rows, { now, timeOf }).map(
    ({ rows: named, ...message }) => ({
      ...message,
      endpoints: named.map((row) => ({
        id: row.id,
        client: row.client,
        host: new URL(row.url).host,
        reason: row.stop_reason as Exclude<StopReason, 'person'>,
        stopped_at: timeOf(row).toISOString(),
      })),
    }),
  )
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
