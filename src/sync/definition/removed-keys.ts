import { keyText, type Path, type PathFinding } from './findings.ts'

/** A key, or a value of one, that flow files had and no longer have. `[]` stands for every entry of a list. */
type RemovedKey = { key: string; value?: string; instead: string }

/** What to use instead of each. A file that still has one is refused with this sentence. */
export const removedKeys: readonly RemovedKey[] = [
  {
    key: 'source.wakeOn',
    instead: 'choose a short pollInterval, or let the ERP call POST /sync/:flow/:pk',
  },
  {
    key: 'windows',
    instead: 'use one window, or a schedule whose cron names the hours',
  },
  ...['source.csv.footer', 'source.fixed.footer'].map((key) => ({
    key,
    instead:
      'let a marker file say that the file is whole (ready), and leave that line out by item.filter',
  })),
  {
    key: 'source.unendedAfter',
    instead:
      'leave it out: it is 15 minutes, and a marker file (ready) says sooner that the file is whole',
  },
  {
    key: 'source.driver',
    value: 'oracle',
    instead: 'let the ERP answer by HTTP or write a file: source.type http, file or sftp',
  },
  {
    key: 'drift',
    instead:
      'leave it out: a poll fails by itself, and sends nothing, when no record has a field that key, cursor, filter or mapping use',
  },
  {
    key: 'alerts.onDegraded',
    instead:
      'leave it out: the receivers under alerts.onJobFailed are notified without a setting when the source cannot be read, polls do not run, an access is lost, or a destination rests or waits for long',
  },
]

/** Whether a file still uses what was removed. */
export function removedFindings(file: unknown): PathFinding[] {
  return removedKeys.flatMap(({ key, value, instead }) =>
    placesOf(file, key.split(/\.|(?=\[\])/), []).flatMap((place) => {
      if (value !== undefined && place.value !== value) return []
      const message = `${value ?? 'this key'} is no longer supported`
      return [{ path: place.path, isKey: value === undefined, message, hint: instead }]
    }),
  )
}

/** The findings about other keys than those that were removed, and than what stands below them. */
export function besideRemoved(
  findings: readonly PathFinding[],
  removed: readonly PathFinding[],
): PathFinding[] {
  const isBelow = (path: Path, of: Path) => keyText(path.slice(0, of.length)) === keyText(of)
  return findings.filter(({ path }) => !removed.some((one) => isBelow(path, one.path)))
}

function placesOf(
  node: unknown,
  [step, ...rest]: readonly string[],
  path: Path,
): { path: Path; value: unknown }[] {
  if (step === undefined) return [{ path, value: node }]
  if (typeof node !== 'object' || node === null) return []
  if (step === '[]') {
    const entries = Array.isArray(node) ? node : []
    return entries.flatMap((one, index) => placesOf(one, rest, [...path, index]))
  }
  if (!Object.hasOwn(node, step)) return []
  return placesOf((node as Record<string, unknown>)[step], rest, [...path, step])
}
