import type { Dispatcher } from 'undici'
import type { Flow } from '../definition/schema.ts'
import type { AlertMessage } from './message.ts'

export type ChannelDefinition = Flow['alerts']['onJobFailed'][number]

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
  send(message: AlertMessage, signal?: AbortSignal): Promise<SendResult>
}

export type ChannelDeps = {
  /** From createGuardedAgent with the flow's allowPrivateNetwork; it stays the caller's to close. */
  agent: Dispatcher
  mail: { smtpUrl: string | undefined; mailFrom: string | undefined }
  now: () => Date
  /** Longest time of one message. */
  timeoutMs: number
}
