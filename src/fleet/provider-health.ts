import {
  callsCounted,
  callsCountForMs,
  failingShare,
  goodCalls,
  goodForMs,
  impairedShare,
  slotMs,
} from './health-limits.ts'
import { healthOf, type OperationHealth } from './health-states.ts'
import type { CallSlot, OperationSeen } from './observations.ts'

/**
 * The state of a kind of call to the provider, by its newest attempts: a single answer among failures, or a single
 * failure, does not change it.
 */
export function deriveOperation({ operation, slots }: OperationSeen, now: Date): OperationHealth {
  const recent = slots.filter(({ at }) => now.getTime() - at.getTime() < callsCountForMs)
  if (hasRecovered(recent, now)) {
    return { operation, ...healthOf('ok', null) }
  }
  const weighed = newest(recent)
  const sum = (of: (slot: CallSlot) => number) => weighed.reduce((all, slot) => all + of(slot), 0)
  const failed = sum((slot) => slot.failed)
  const throttled = sum((slot) => slot.throttled)
  const all = failed + throttled + sum((slot) => slot.answered)
  if (all === 0) {
    return { operation, ...healthOf('unknown', 'not_called') }
  }
  const code = weighed.find(({ lastCode }) => lastCode !== null)?.lastCode
  const trouble = { operation, about: { operation, ...(code != null && { code }) } }
  const since = beginning(slots)
  if (failed >= 2 && failed / all >= failingShare) {
    return { ...trouble, state: 'down', cause: 'provider_failing', since }
  }
  if (failed >= 2 && failed / all >= impairedShare) {
    return { ...trouble, state: 'attention', cause: 'provider_failing', since }
  }
  if (throttled >= 2 && (failed + throttled) / all >= failingShare) {
    return { ...trouble, state: 'attention', cause: 'throttled', since }
  }
  return { operation, ...healthOf('ok', null) }
}

/** Whether some calls were answered and none failed for a while. */
function hasRecovered(slots: readonly CallSlot[], now: Date): boolean {
  const last = slots.findIndex(({ failed, throttled }) => failed + throttled > 0)
  const trouble = slots[last]
  if (!trouble) return false
  const answered = slots.slice(0, last).reduce((sum, slot) => sum + slot.answered, 0)
  return answered >= goodCalls && now.getTime() - trouble.at.getTime() >= slotMs + goodForMs
}

/** The newest attempts. Of the slot that would exceed the number only a share counts. */
function newest(slots: readonly CallSlot[]): CallSlot[] {
  const weighed: CallSlot[] = []
  let left = callsCounted
  for (const slot of slots) {
    const { answered, failed, throttled } = slot
    const calls = answered + failed + throttled
    const isNewest = weighed.length === 0
    const share = isNewest || calls <= left ? 1 : left / calls
    weighed.push({
      ...slot,
      answered: answered * share,
      failed: failed * share,
      throttled: throttled * share,
    })
    left -= calls
    if (left <= 0) break
  }
  return weighed
}

/** The oldest slot with a failure after which no slot was without one. */
function beginning(slots: readonly CallSlot[]): Date | null {
  let since: Date | null = null
  for (const { at, failed, throttled } of slots) {
    if (failed + throttled > 0) since = at
    else if (since !== null) break
  }
  return since
}
