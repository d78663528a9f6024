import type { ProviderCallLog } from './provider-types.ts'

export type ProviderHealth = {
  note(entry: ProviderCallLog): void
  read(): {
    status: 'ok' | 'degraded' | 'unknown'
    lastAnswerAt: Date | null
    lastFailureAt: Date | null
  }
}

/** Remembers how the last calls went. A refusal is an answer; no answer and a 5xx are failures. */
export function createProviderHealth(now: () => Date): ProviderHealth {
  let lastAnswerAt: Date | null = null
  let lastFailureAt: Date | null = null
  return {
    note(entry) {
      if (entry.status !== null && entry.status < 500) lastAnswerAt = now()
      else lastFailureAt = now()
    },
    read() {
      const isFailing =
        lastFailureAt !== null && (lastAnswerAt === null || lastFailureAt > lastAnswerAt)
      const status = isFailing ? 'degraded' : lastAnswerAt === null ? 'unknown' : 'ok'
      return { status, lastAnswerAt, lastFailureAt }
    },
  }
}
