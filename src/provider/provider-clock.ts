import type { ProviderSettings } from './provider-types.ts'

/**
 * How far our clock is from the provider's, measured by the dates of its answers. Spans of payments are by the provider's clock: with
 * ours ahead, a span would be read before the provider has all of its payments.
 */
export type ProviderClock = {
  note: NonNullable<ProviderSettings['onDate']>
  isMeasured(): boolean
  /** The time by the provider's clock; ours until it is measured. */
  now(): Date
  /** The time by our clock at which the provider's has this time. */
  toOurs(time: Date): Date
  toProviders(time: Date): Date
  read(): { status: 'ok' | 'degraded' | 'unknown'; aheadSeconds: number | null }
}

const samplesAtMost = 5
/** The time of a slow answer says little. */
const longestCallMs = 5_000
/** A date has whole seconds, and the answer takes its time. */
const leastMs = 5_000
/** A date that is further off is not that of a clock. */
const mostMs = 24 * 3_600_000
const warnFromMs = 60_000

export function createProviderClock(
  now: () => Date,
  log: { warn(fields: object, message: string): void },
): ProviderClock {
  let samples: number[] = []
  let isWarned = false

  /** Positive while our clock is ahead. The middle one of the last samples, so that a single odd date counts for nothing. */
  const aheadMs = () => {
    const middle = samples.toSorted((a, b) => a - b)[Math.floor(samples.length / 2)] ?? 0
    return Math.abs(middle) < leastMs ? 0 : middle
  }
  const shifted = (time: Date, ms: number) => new Date(time.getTime() + ms)

  return {
    note({ date, durationMs }) {
      if (durationMs > longestCallMs) return
      const sample = now().getTime() - date.getTime() - Math.round(durationMs / 2) - 500
      if (Math.abs(sample) > mostMs) return
      samples = [...samples.slice(1 - samplesAtMost), sample]
      const isFar = Math.abs(aheadMs()) >= warnFromMs
      if (isFar && !isWarned) {
        const aheadSeconds = Math.round(aheadMs() / 1000)
        log.warn({ aheadSeconds }, 'our clock differs from that of the provider: set the clock')
      }
      isWarned = isFar
    },
    isMeasured: () => samples.length > 0,
    now: () => shifted(now(), -aheadMs()),
    toOurs: (time) => shifted(time, aheadMs()),
    toProviders: (time) => shifted(time, -aheadMs()),
    read() {
      if (samples.length === 0) return { status: 'unknown', aheadSeconds: null }
      const isFar = Math.abs(aheadMs()) >= warnFromMs
      return {
        status: isFar ? 'degraded' : 'ok',
        aheadSeconds: Math.round(aheadMs() / 1000),
      }
    },
  }
}
