import { createHash } from 'node:crypto'
import type { Loss } from '../sync/oauth/lost-grant.ts'

/** A failed delivery as it is told. Texts are as they were recorded: each channel makes them harmless in its own way. */
export type FailureExample = { pk: string; error: string; attempts: number; at: string }

export type Condition = 'noSuccessfulPollFor' | 'errorPercent' | 'failedJobs' | 'pollLongerThan'

/** What is told; times are ISO 8601, so that a message survives in the database as it is. */
export type AlertContent =
  | { kind: 'test' }
  /** Deliveries failed for good since the last message. */
  | {
      kind: 'failed'
      destination: string
      failed: number
      /** Failed deliveries that are not delivered at this moment; 0 when all of them arrived meanwhile. */
      open: number
      since: string
      examples: FailureExample[]
    }
  /** Nothing new, but what was told is still so. */
  | {
      kind: 'reminder'
      destination: string
      open: number
      since: string
      examples: FailureExample[]
    }
  /** Nothing that failed is left. */
  | { kind: 'recovered'; destination: string; since: string }
  | {
      kind: 'degraded'
      condition: Condition
      /** Milliseconds, percent or jobs, as the condition has it; `value` is null when there is nothing to measure yet. */
      limit: number
      value: number | null
      since: string
    }
  | { kind: 'restored'; condition: Condition; since: string }
  /** Nothing is sent to a destination, since its issuer renews the access to it no more. `place`: of the first refresh token. */
  | {
      kind: 'unauthorized'
      destination: string
      /** In English; of what `loss` tells. */
      reason: string
      loss?: Loss
      place: string
      since: string
    }
  | { kind: 'authorized'; destination: string; since: string }

export type AlertMessage = AlertContent & {
  /** The same for every attempt to send this message, so that receivers can drop repetitions. */
  id: string
  at: string
  flow: string
}

/** An id that is the same for the same parts. */
export function messageId(...parts: readonly (string | number)[]): string {
  return `msg_${createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 32)}`
}

const longestText = 300

/** One line of at most 300 characters without control, direction or other invisible characters. */
export function oneLine(text: string): string {
  const clean = text.replace(/[\p{C}\p{Z}\s]+/gu, ' ').trim()
  const characters = Array.from(clean)
  if (characters.length <= longestText) return clean
  return `${characters.slice(0, longestText - 1).join('')}…`
}

/** The call that sends failed deliveries of a destination again. */
export function retryCall(flow: string, destination: string) {
  return { method: 'POST', path: `/flow/${flow}/retry`, body: { destination } } as const
}
