import { parse } from 'node:path'
import { inOrder } from '../definition/file-pattern.ts'
import type { FoundFile, OpenedFile } from './file-store.ts'

const placeholder = /\{(?:name|stem)\}/g

/** The marker's name for a file: `{name}` is the file's name, `{stem}` the name without its last extension. */
export function markerName(template: string, file: string): string {
  const { base, name } = parse(file)
  return template.replace(placeholder, (word) => (word === '{name}' ? base : name))
}

/** Creates a test for marker names. Without it, a pattern such as `*` would read markers as data. */
export function isMarkerName(template: string): (name: string) => boolean {
  return inOrder(template.split(placeholder), 1)
}

/**
 * Whether the marker belongs to this file. An older marker belongs to an earlier file of that name. Content times are
 * compared, because renaming a finished file keeps its content time.
 */
export function isMarkerOf(marker: FoundFile | undefined, file: FoundFile): boolean {
  return marker !== undefined && marker.changedNs >= file.changedNs
}

const lineFeed = 0x0a
const carriageReturn = 0x0d
const endOfFile = 0x1a
/** The first line shows which line end the file uses. */
const firstLineBytes = 65_536

/**
 * Whether the last line ends with LF, with the end-of-file character Ctrl-Z, or with CR in a file without LF. In a file with
 * CRLF a final CR is an incomplete line end. Rejects as `file.read` does.
 */
export async function endsItsLastLine(file: OpenedFile, size: number): Promise<boolean> {
  if (size === 0) return true
  const length = Math.min(2, size)
  const end = await file.read(Buffer.alloc(length), 0, length, size - length)
  if (end.bytesRead < length) return false
  const [before, last] = length === 1 ? [undefined, end.buffer[0]] : end.buffer
  if (last === lineFeed || last === endOfFile) return true
  // UTF-16.
  if (before === lineFeed && last === 0) return true
  if (last !== carriageReturn) return false
  const first = await file.read(Buffer.alloc(firstLineBytes), 0, firstLineBytes, 0)
  return !first.buffer.subarray(0, first.bytesRead).includes(lineFeed)
}

/** Limit of files that are observed. Above it, all observations are discarded. */
const maxObservedFiles = 10_000

/** Per clock: its first time, and the monotonic time at that moment. */
const firstReadings = new WeakMap<() => Date, { atMs: number; monotonicMs: number }>()

/**
 * Makes the check whether a file has been unchanged for some milliseconds, by its change time or by repeated observation.
 *
 * The system clock can be set. A jump forward must not accept a file that is still being written. A jump back must not delay a
 * file. So the expected time is derived from the process's first clock reading and `monotonicMs`, a clock that cannot be set. The
 * first reading is shared, because each change of a definition opens the source again.
 */
export function createStabilityCheck(
  now: () => Date,
  monotonicMs: () => number,
): (file: FoundFile, ms: number) => boolean {
  const reading = firstReadings.get(now) ?? { atMs: now().getTime(), monotonicMs: monotonicMs() }
  firstReadings.set(now, reading)
  const observations = new Map<string, { mark: string; atMs: number }>()

  const observedFor = ({ path, unchangedSinceMs, mark: text }: FoundFile): number => {
    const mark = `${text} ${unchangedSinceMs}`
    const before = observations.get(path)
    if (before?.mark === mark) return monotonicMs() - before.atMs
    if (observations.size >= maxObservedFiles) observations.clear()
    observations.set(path, { mark, atMs: monotonicMs() })
    return 0
  }

  return (file, ms) => {
    const observedMs = observedFor(file)
    // The time the clock would show without adjustments. The earlier of both protects against a jump forward.
    const expectedMs = reading.atMs + (monotonicMs() - reading.monotonicMs)
    const earliestMs = Math.min(now().getTime(), expectedMs)
    return ms === 0 || file.unchangedSinceMs <= earliestMs - ms || observedMs >= ms
  }
}
