import type { Hearer } from './engine.ts'

/** With it a till that waits for its customer sees the payment a second late at most. */
const everyMs = 1_000

/** Where nothing can be heard: as if everything was missed, every second, so that everybody looks at the tables. */
export class LookingListener {
  readonly #timers = new Set<NodeJS.Timeout>()

  async listen(_channel: string, { onGap }: Hearer): Promise<() => Promise<void>> {
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
