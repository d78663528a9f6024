import type { Dispatcher } from 'undici'
import type { Secret } from '../domain/flow-secret.ts'
import type { Reason } from '../texts/reason.ts'

export type Locale = 'es' | 'en'

/** A receiver, as defined in settings or a flow file. */
export type ChannelDefinition =
  | { type: 'email'; to: readonly string[]; locale: Locale }
  | { type: 'slack'; url: Secret; locale?: Locale }
  | { type: 'webhook'; url: Secret; secret?: Secret | undefined }

/** The text of a message. Each text is one line; nothing is escaped for markup. */
export type MessageText = {
  title: string
  facts: string[]
  examples: { pk: string; error: string }[]
  /** What to do, and the API call for it. */
  advice: string[]
  command: string | null
}

/** A message for all channels. */
export type Notification = {
  /** The same for every attempt to send this message, so that receivers can drop duplicates. */
  id: string
  /** ISO 8601. */
  at: string
  text(locale: Locale): MessageText
  /** The content for a webhook, besides the time. */
  event: { type: string; data: object }
}

export type SendResult =
  | { ok: true }
  | {
      ok: false
      /** Short. It contains no secret, and only the status of the receiver's answer. */
      why: Reason
      /** It arrived at some of several addresses, so a retry would duplicate it there. */
      partly?: true
      /** The receiver answered that it does not take this message; it may take another one. */
      isRefused?: true
      /** How long the receiver asked to wait. */
      retryAfterSeconds?: number
    }

export type Channel = {
  /** Stable for the same receiver across restarts; no secret. */
  key: string
  type: ChannelDefinition['type']
  /** Where it goes, for display: secrets are masked. */
  target: string
  /** Sends once. Returns within the time limit and never throws. */
  send(message: Notification, signal?: AbortSignal): Promise<SendResult>
}

export type ChannelDeps = {
  /** From createGuardedAgent; the caller closes it. */
  agent: Dispatcher
  mail: { smtpUrl: string | undefined; mailFrom: string | undefined }
  now: () => Date
  /** Time limit of one message. */
  timeoutMs: number
}
