/** Prints what the demo does, step by step, with the time each took. */
export type Steps = {
  /** Runs one step; `work` answers what to show beside it. A failure ends the demo with the step's name. */
  step<T>(title: string, work: () => Promise<{ shown: string; value: T }>): Promise<T>
  line(text?: string): void
}

export class StepError extends Error {}

export function createSteps(write: (text: string) => void): Steps {
  let number = 0
  const startedAt = performance.now()
  return {
    line(text = '') {
      write(`${text}\n`)
    },
    async step(title, work) {
      number += 1
      const from = performance.now()
      try {
        const { shown, value } = await work()
        const now = performance.now()
        const time = `${seconds(now - from)}  (${seconds(now - startedAt)} in all)`
        write(`${String(number).padStart(2)}. ${title.padEnd(46)} ${time}\n    ${shown}\n`)
        return value
      } catch (cause) {
        throw new StepError(`Step ${number} failed: ${title}`, { cause })
      }
    },
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2).padStart(6)} s`
}
