import type { Reason } from '../../domain/flow-reasons.ts'
import { keyText, type Path, type PathFinding } from './findings.ts'

/** A key, or a value of a key, that flow files no longer have. `[]` means every entry of a list. */
type RemovedKey = { key: string; value?: string; instead: Reason }

/** The replacement of each removed key. A file that still has one is refused with this sentence. */
export const removedKeys: readonly RemovedKey[] = [
  {
    key: 'source.wakeOn',
    instead: { code: 'INSTEAD_OF_WAKE_ON' },
  },
  {
    key: 'windows',
    instead: { code: 'INSTEAD_OF_WINDOWS' },
  },
  ...['source.csv.footer', 'source.fixed.footer'].map(
    (key): RemovedKey => ({ key, instead: { code: 'INSTEAD_OF_FOOTER' } }),
  ),
  {
    key: 'source.unendedAfter',
    instead: { code: 'INSTEAD_OF_UNENDED_AFTER' },
  },
  {
    key: 'source.driver',
    value: 'oracle',
    instead: { code: 'INSTEAD_OF_ORACLE' },
  },
  {
    key: 'drift',
    instead: { code: 'INSTEAD_OF_DRIFT' },
  },
  {
    key: 'alerts.onDegraded',
    instead: { code: 'INSTEAD_OF_ON_DEGRADED' },
  },
]

/** Findings for removed keys and values in a file. */
export function removedFindings(file: unknown): PathFinding[] {
  return removedKeys.flatMap(({ key, value, instead }) =>
    placesOf(file, key.split(/\.|(?=\[\])/), []).flatMap((place) => {
      if (value !== undefined && place.value !== value) return []
      const why: Reason = {
        code: 'REMOVED_KEY',
        data: { value: value ?? { code: 'THIS_KEY' }, instead },
      }
      return [{ path: place.path, isKey: value === undefined, why }]
    }),
  )
}

/** Findings except those about removed keys and the parts below them. */
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
