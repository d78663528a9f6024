import type { FlowHealth } from '../repositories/notifications/failure-queries.ts'
import type { Flow } from '../sync/definition/schema.ts'
import type { Condition } from './flow-message.ts'
import type { Verdict } from './plan-failures.ts'

/** Over which the share of failed deliveries is taken. */
const shareOverMs = 15 * 60_000
/** Fewer deliveries make no meaningful share. */
const enoughJobs = 20

type Sample = { at: number; completed: number; failed: number }

export type ConditionWatch = {
  /**
   * Judges the conditions that the flow sets. `isQuiet`: the flow is paused or outside its window, and nobody expects
   * anything of it.
   */
  judge(
    limits: Flow['alerts']['onDegraded'],
    health: FlowHealth,
    facts: { now: Date; isQuiet: boolean },
  ): { condition: Condition; limit: number; verdict: Verdict }[]
}

/** Watches a flow from `since` on: what was amiss before, while nobody could poll, is no reason for an alarm. */
export function createConditionWatch(since: Date): ConditionWatch {
  let watchedSince = since.getTime()
  let samples: Sample[] = []

  return {
    judge(limits, health, { now: date, isQuiet }) {
      const now = date.getTime()
      samples = withSample(samples, {
        at: now,
        completed: health.jobsCompleted,
        failed: health.jobsFailed,
      })
      if (isQuiet) watchedSince = now
      const verdicts: Record<Condition, (limit: number) => Verdict> = {
        noSuccessfulPollFor(limit) {
          const last = health.lastSuccessAt?.getTime() ?? null
          if (last !== null && now - last <= limit) return { state: 'good' }
          // The flow gets as long as it has at any other time.
          if (now - watchedSince <= limit) return { state: 'unknown' }
          return { state: 'bad', value: last === null ? null : now - last }
        },
        errorPercent: (limit) => judgeShare(samples, now, limit),
        failedJobs: (limit) =>
          health.failedJobs >= limit
            ? { state: 'bad', value: health.failedJobs }
            : { state: 'good' },
        pollLongerThan(limit) {
          // A process that died leaves its poll standing as begun, until the next one begins.
          const begun =
            health.pollStartedAt && Math.max(health.pollStartedAt.getTime(), watchedSince)
          if (begun !== null && now - begun > limit) return { state: 'bad', value: now - begun }
          if (health.lastPollMs === null) return { state: 'unknown' }
          return health.lastPollMs > limit
            ? { state: 'bad', value: health.lastPollMs }
            : { state: 'good' }
        },
      }
      return limitsOf(limits).map(([condition, limit]) => ({
        condition,
        limit,
        verdict: isQuiet ? { state: 'unknown' } : verdicts[condition](limit),
      }))
    },
  }
}

function limitsOf(limits: Flow['alerts']['onDegraded']): [Condition, number][] {
  const all: [Condition, number | undefined][] = [
    ['noSuccessfulPollFor', limits.noSuccessfulPollForMs],
    ['errorPercent', limits.errorPercent],
    ['failedJobs', limits.failedJobs],
    ['pollLongerThan', limits.pollLongerThanMs],
  ]
  return all.filter((entry): entry is [Condition, number] => entry[1] !== undefined)
}

/** Keeps one sample from before the span: what came since is counted from it. */
function withSample(samples: readonly Sample[], sample: Sample): Sample[] {
  const all = [...samples, sample]
  const first = all.findLastIndex(({ at }) => at <= sample.at - shareOverMs)
  return all.slice(Math.max(0, first))
}

/** Only over the whole span: judged by different parts of it, two processes would contradict each other. */
function judgeShare(samples: readonly Sample[], now: number, limit: number): Verdict {
  const [first] = samples
  const last = samples.at(-1)
  if (!first || !last || now - first.at < shareOverMs) return { state: 'unknown' }
  const failed = last.failed - first.failed
  const finished = failed + last.completed - first.completed
  if (failed === 0) return { state: 'good' }
  if (finished < enoughJobs) return { state: 'unknown' }
  const percent = (100 * failed) / finished
  return percent >= limit ? { state: 'bad', value: percent } : { state: 'good' }
}
