/** The log of a start at a terminal. Its lines wait until `show`, so that the readable block comes first. */
export type StartupLog = { write(line: string): void; show(): void }

/** A start that takes longer, such as one that migrates, shows its lines. */
const longestWaitMs = 15_000

/** Writes lines to `output`: from `show` on, after `longestWaitMs`, and at the end of the process. */
export function openStartupLog(output: { write(text: string): unknown }): StartupLog {
  let waiting: string[] | undefined = []
  const show = () => {
    const lines = waiting ?? []
    waiting = undefined
    clearTimeout(timer)
    process.off('exit', show)
    for (const line of lines) output.write(line)
  }
  const timer = setTimeout(show, longestWaitMs).unref()
  process.once('exit', show)
  return {
    write(line) {
      if (waiting) waiting.push(line)
      else output.write(line)
    },
    show,
  }
}
