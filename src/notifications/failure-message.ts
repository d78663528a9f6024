import { type StoredReason, sentenceOf } from '../domain/flow-reasons.ts'
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

type Words = {
  test(flow: string): [string, string]
  failed(flow: string, destination: string, count: number): string
  stillFailed(flow: string, destination: string, count: number): string
  recovered(flow: string, destination: string): string
  since(time: string): string
  counts(failed: number, open: number): string
  nothingLeft: string
  recoveredFact(since: string): string
  retry: string
}

const languages: Record<Locale, Words> = {
  es: {
    test: (flow) => [
      `Prueba de alertas del flujo ${flow}`,
      'Este canal recibe las alertas del flujo. No hay nada que hacer.',
    ],
    failed: (flow, destination, count) =>
      `${flow}: ${count === 1 ? '1 entrega falló' : `${count} entregas fallaron`} en ${destination}`,
    stillFailed: (flow, destination, count) =>
      `${flow}: ${count === 1 ? 'sigue 1 entrega fallida' : `siguen ${count} entregas fallidas`} en ${destination}`,
    recovered: (flow, destination) => `${flow}: ${destination} se recuperó`,
    since: (time) => `Desde: ${time}`,
    counts: (failed, open) => `Fallas nuevas: ${failed}; sin entregar ahora: ${open}`,
    nothingLeft: 'Todas se entregaron después: no queda ninguna fallida.',
    recoveredFact: (since) => `No quedan entregas fallidas. La primera falla fue el ${since}.`,
    retry:
      'Corregí la causa y volvé a enviar con «Volver a enviar todo lo fallido» del panel (/admin) o con la API de control:',
  },
  en: {
    test: (flow) => [
      `Alert test of flow ${flow}`,
      'This channel receives the alerts of the flow. No action is needed.',
    ],
    failed: (flow, destination, count) =>
      `${flow}: ${count === 1 ? '1 delivery' : `${count} deliveries`} to ${destination} failed`,
    stillFailed: (flow, destination, count) =>
      `${flow}: ${count === 1 ? '1 delivery' : `${count} deliveries`} to ${destination} still failed`,
    recovered: (flow, destination) => `${flow}: ${destination} has recovered`,
    since: (time) => `Since: ${time}`,
    counts: (failed, open) => `New failures: ${failed}; not delivered now: ${open}`,
    nothingLeft: 'All of them were delivered later: no failed delivery is left.',
    recoveredFact: (since) => `No failed deliveries are left. The first failure was at ${since}.`,
    retry:
      'Fix the cause. Then use “Send all that failed again” on the dashboard (/admin), or the control API:',
  },
}

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
  return testNotification(message, event, (locale) => languages[locale].test(flow))
}

function textOf(message: FailureMessage, locale: Locale): MessageText {
  const words = languages[locale]
  const { flow, destination } = message
  const since = clockTime(message.since)
  if (message.kind === 'deliveries_recovered') {
    return plainText(words.recovered(flow, destination), [words.recoveredFact(since)])
  }
  const { open, examples } = message
  const { method, path, body } = retryCall(message)
  const isNew = message.kind === 'deliveries_failed'
  return {
    title: isNew
      ? words.failed(flow, destination, message.failed)
      : words.stillFailed(flow, destination, open),
    facts: [
      words.since(since),
      ...(isNew ? [words.counts(message.failed, open)] : []),
      ...(open === 0 ? [words.nothingLeft] : []),
    ],
    examples: examples.map(({ pk, error, why }) => ({
      pk: oneLine(pk),
      error: oneLine((why && sentenceOf(why, locale)) ?? error),
    })),
    advice: open === 0 ? [] : [words.retry],
    command: open === 0 ? null : `${method} ${path} ${JSON.stringify(body)}`,
  }
}

/** The call that sends failed deliveries of a destination again. */
function retryCall({ flow, destination }: Pick<FailureMessage, 'flow' | 'destination'>) {
  return { method: 'POST', path: `/flow/${flow}/retry`, body: { destination } } as const
}
