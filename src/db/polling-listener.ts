import type { ListenerHandlers } from './engine.ts'

/** A charge that waits for its customer gets the payment at most a second late. */
const everyMs = 1_000

/** For a database without notifications: signals a gap every second, so that all listeners read the tables. */
export class PollingListener {
  readonly #timers = new Set<NodeJS.Timeout>()

  async listen(_channel: string, { onGap }: ListenerHandlers): Promise<() => Promise<void>> {
    const timer = setInterval(onGap, everyMs).unref()
    this.#timers.add(timer)
    return async () => {
      clearInterval(timer)
      this.#timers.delete(timer)
    }
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
  }
}
