import { readFileSync } from 'node:fs'
import { type Profiler, Session } from 'node:inspector/promises'
import { fileURLToPath } from 'node:url'

/** The files and lines of the source that an operation passes through. */
export type Passed = { files: string[]; lines: number }

export type Counted = {
  operation: () => Promise<void>
  /** Ends what the operation has started and no caller has waited for; it counts, too. */
  settle: () => Promise<void>
  /** These do not count. */
  before?: () => Promise<void>
  /** A folder of the source whose files do not count. */
  leavesOut?: string
  after?: () => Promise<void>
}

const source = fileURLToPath(new URL('../src/', import.meta.url))
/** The provider's stand-in, which runs in the same process. */
const sandbox = `${source}sandbox/`

/**
 * Plays the operation `times` times after some that are not counted, and answers what each of them passed through: the lines
 * of functions that were called every time. A cache that is filled once, a timer or a retry counts for none.
 */
export async function countPassed(
  { warmUps, times }: { warmUps: number; times: number },
  { operation, settle, before, after, leavesOut }: Counted,
): Promise<Passed> {
  const session = new Session()
  session.connect()
  try {
    await session.post('Profiler.enable')
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    const rounds: Called[] = []
    const idle: Called[] = []
    // Counting begins again with each answer.
    const called = async () => {
      const { result } = await session.post('Profiler.takePreciseCoverage')
      return calledIn(result)
    }
    for (let round = 0; round < warmUps + times; round += 1) {
      await before?.()
      await settle()
      await called()
      await settle()
      const bySettling = await called()
      await operation()
      await settle()
      const byAll = await called()
      await after?.()
      if (round < warmUps) continue
      idle.push(bySettling)
      rounds.push(byAll)
    }
    return passedIn(rounds, idle, leavesOut)
  } finally {
    session.disconnect()
  }
}

/** Where the functions of a file begin and end, and whether they were called. */
type Spans = Map<string, boolean>
type Called = Map<string, Spans>

function calledIn(scripts: Profiler.ScriptCoverage[]): Called {
  const files: Called = new Map()
  for (const { url, functions } of scripts) {
    const file = url.startsWith('file:') ? fileURLToPath(url) : ''
    if (!file.startsWith(source) || file.startsWith(sandbox)) continue
    const spans: Spans = new Map()
    for (const { functionName, ranges } of functions) {
      const [range] = ranges
      // The module itself has run long before.
      if (!range || (functionName === '' && range.startOffset === 0)) continue
      spans.set(`${range.startOffset} ${range.endOffset}`, range.count > 0)
    }
    files.set(file, spans)
  }
  return files
}

/** The lines of functions that were called in each of these rounds, and not by settling alone. */
function passedIn(rounds: Called[], idle: Called[], leavesOut: string | undefined): Passed {
  const isInAll = (all: Called[], file: string, span: string) =>
    all.every((called) => called.get(file)?.get(span))
  const files: string[] = []
  let lines = 0
  for (const [file, spans] of rounds[0] ?? []) {
    if (leavesOut !== undefined && file.startsWith(source + leavesOut)) continue
    const functions = [...spans.keys()].map((span) => {
      const [begin = 0, end = 0] = span.split(' ').map(Number)
      return { begin, end, isPassed: isInAll(rounds, file, span) && !isInAll(idle, file, span) }
    })
    if (!functions.some(({ isPassed }) => isPassed)) continue
    files.push(file.slice(source.length))
    lines += passedLines(readFileSync(file, 'utf8'), functions)
  }
  return { files: files.sort(), lines }
}

type Span = { begin: number; end: number; isPassed: boolean }

/** Lines of code at whose beginning or end the innermost function is one that was passed through. */
function passedLines(text: string, functions: Span[]): number {
  const isPassed = (place: number) =>
    functions
      .filter(({ begin, end }) => begin <= place && place < end)
      .sort((a, b) => a.end - a.begin - (b.end - b.begin))[0]?.isPassed
  let at = 0
  let count = 0
  for (const line of text.split('\n')) {
    const first = at + line.length - line.trimStart().length
    // What closes the call around a function is none of it.
    const last = at + line.replace(/[\s,;)]+$/, '').length - 1
    at += line.length + 1
    if (/^\s*(?:$|\/\/|\/?\*)/.test(line)) continue
    if (isPassed(first) || isPassed(last)) count += 1
  }
  return count
}
