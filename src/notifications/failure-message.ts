import { type StoredReason, sentenceOf } from '../texts/reason.ts'
import { textIn } from '../texts/texts.ts'
import type { Locale, MessageText, Notification } from './channel.ts'
import { clockTime, oneLine, plainText, testNotification } from './message-parts.ts'

/** A failed delivery. Texts are as recorded; each channel escapes them. */
export type FailureExample = {
  pk: string
  error: string
  /** Absent if a version without codes recorded the failure. */
  why?: StoredReason
  attempts: number
  at: string
}

/** Times are ISO 8601, so that a message can be stored unchanged. */
export type FailureContent = { destination: string; since: string } & (
  | {
      kind: 'deliveries_failed'
      /** Permanent failures since the last message. */
      failed: number
      /** Failed deliveries that are still open; 0 if all arrived meanwhile. */
      open: number
      examples: FailureExample[]
    }
  /** No new failures, but earlier ones are still open. */
  | { kind: 'deliveries_still_failed'; open: number; examples: FailureExample[] }
  /** No open failure is left. */
  | { kind: 'deliveries_recovered' }
)

/** What the receivers of a flow are notified of. */
export type FailureMessage = FailureContent & { id: string; at: string; flow: string }

const types = {
  deliveries_failed: 'flow.failed',
  deliveries_still_failed: 'flow.failed.reminder',
  deliveries_recovered: 'flow.recovered',
} as const satisfies Record<FailureMessage['kind'], string>

/** The message as channels send it. */
export function failureNotification(message: FailureMessage): Notification {
  const { id, at, kind, ...data } = message
  return {
    id,
    at,
    text: (locale) => textOf(message, locale),
    event: {
      type: types[kind],
      data: {
        ...data,
        ...(kind !== 'deliveries_recovered' && { retry: retryCall(message) }),
      },
    },
  }
}

/** A test message for a receiver of a flow. */
export function flowTestNotification(
  flow: string,
  message: { id: string; at: string },
): Notification {
  const event = { type: 'flow.test', data: { flow } }
  return testNotification(message, event, (locale) => [
    textIn(locale, 'message.failures.test', { flow }),
    textIn(locale, 'message.failures.test_fact'),
  ])
}

function textOf(message: FailureMessage, locale: Locale): MessageText {
  const { flow, destination } = message
  const time = clockTime(message.since)
  if (message.kind === 'deliveries_recovered') {
    return plainText(textIn(locale, 'message.failures.recovered', { flow, destination }), [
      textIn(locale, 'message.failures.recovered_fact', { time }),
    ])
  }
  const { open, examples } = message
  const { method, path, body } = retryCall(message)
  const failed = message.kind === 'deliveries_failed' ? message.failed : undefined
  return {
    title:
      failed === undefined
        ? textIn(locale, 'message.failures.still', { flow, destination, count: open })
        : textIn(locale, 'message.failures.new', { flow, destination, count: failed }),
    facts: [
      textIn(locale, 'message.since', { time }),
      ...(failed === undefined
        ? []
        : [textIn(locale, 'message.failures.counts', { failed, open })]),
      ...(open === 0 ? [textIn(locale, 'message.failures.none_left')] : []),
    ],
    examples: examples.map(({ pk, error, why }) => ({
      pk: oneLine(pk),
      error: oneLine((why && sentenceOf(why, locale)) ?? error),
    })),
    advice: open === 0 ? [] : [textIn(locale, 'message.failures.retry')],
    command: open === 0 ? null : `${method} ${path} ${JSON.stringify(body)}`,
  }
}

/** The call that sends failed deliveries of a destination again. */
function retryCall({ flow, destination }: Pick<FailureMessage, 'flow' | 'destination'>) {
  return { method: 'POST', path: `/flow/${flow}/retry`, body: { destination } } as const
}
