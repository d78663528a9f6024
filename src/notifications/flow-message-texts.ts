import type { NotificationTexts } from './channel.ts'
import { textOf } from './failure-texts.ts'
import { type AlertMessage, retryCall } from './flow-message.ts'

const types = {
  test: 'flow.test',
  failed: 'flow.failed',
  reminder: 'flow.failed.reminder',
  recovered: 'flow.recovered',
  degraded: 'flow.degraded',
  restored: 'flow.restored',
  unauthorized: 'flow.unauthorized',
  authorized: 'flow.authorized',
} as const satisfies Record<AlertMessage['kind'], string>

/** A message about a flow, as channels send it. */
export function textsOf(message: AlertMessage): NotificationTexts {
  const { id, at, kind, ...data } = message
  const retry =
    'destination' in data && (kind === 'failed' || kind === 'reminder')
      ? { retry: retryCall(data.flow, data.destination) }
      : {}
  return {
    id,
    at,
    text: (locale) => textOf(message, locale),
    event: { type: types[kind], data: { ...data, ...retry } },
  }
}
