import type { Dispatcher } from 'undici'
import type { Secret } from '../domain/secret.ts'

export type Locale = 'es' | 'en'

/** A receiver, as settings or a flow file name it. */
export type ChannelDefinition =
  | { type: 'email'; to: readonly string[]; locale: Locale }
  | { type: 'slack'; url: Secret; locale?: Locale }
  | { type: 'webhook'; url: Secret; secret?: Secret | undefined }

/** A message in words. Every text is one line; nothing of it is escaped for any markup. */
export type MessageText = {
  title: string
  facts: string[]
  examples: { pk: string; error: string }[]
  /** What to do, and the call that does it. */
  advice: string[]
  command: string | null
}

/** A message as channels send it, whatever it is about. */
export type Notification = {
  /** The same for every attempt to send this message, so that receivers can drop repetitions. */
  id: string
  /** ISO 8601. */
  at: string
  text(locale: Locale): MessageText
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
      /** How long the receiver asked to wait. */
      retryAfterSeconds?: number
    }

export type Channel = {
  /** The same for the same receiver, across restarts; no secret. */
  key: string
  type: ChannelDefinition['type']
  /** Where it goes, for people: secrets are masked. */
  target: string
  /** Sends once; answers within the time limit whatever happens, and never throws. */
  send(message: Notification, signal?: AbortSignal): Promise<SendResult>
}

export type ChannelDeps = {
  /** From createGuardedAgent; it stays the caller's to close. */
  agent: Dispatcher
  mail: { smtpUrl: string | undefined; mailFrom: string | undefined }
  now: () => Date
  /** Longest time of one message. */
  timeoutMs: number
}
