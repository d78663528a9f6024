import type { Dispatcher } from 'undici'
import type { Flow } from '../sync/definition/schema.ts'
import type { AlertText, Locale } from './failure-texts.ts'

type FlowChannel = Flow['alerts']['onJobFailed'][number]
/** A receiver; the file of a flow gives Slack no language. */
export type ChannelDefinition =
  | Exclude<FlowChannel, { type: 'slack' }>
  | (Extract<FlowChannel, { type: 'slack' }> & { locale?: Locale })

/** A message as channels send it, whatever it is about. */
export type NotificationTexts = {
  /** The same for every attempt to send this message, so that receivers can drop repetitions. */
  id: string
  /** ISO 8601. */
  at: string
  text(locale: Locale): AlertText
  /** What a webhook gets beside the time. */
  event: { type: string; data: object }
}

export type SendResult =
  | { ok: true }
  | {
      ok: false
      /** For people, short; holds no secret and nothing of what the receiver answered but its status. */
      error: string
      /** It arrived at some of several addresses: sending it again would repeat it there. */
      partly?: true
      /** The receiver's own wish. */
      retryAfterSeconds?: number
    }

export type Channel = {
  /** The same for the same receiver, across restarts; no secret. */
  key: string
  type: ChannelDefinition['type']
  /** Where it goes, for people: secrets are masked. */
  target: string
  /** Sends once; answers within the time limit whatever happens, and never throws. */
  send(message: NotificationTexts, signal?: AbortSignal): Promise<SendResult>
}

export type ChannelDeps = {
  /** From createGuardedAgent with the flow's allowPrivateNetwork; it stays the caller's to close. */
  agent: Dispatcher
  mail: { smtpUrl: string | undefined; mailFrom: string | undefined }
  now: () => Date
  /** Longest time of one message. */
  timeoutMs: number
}
