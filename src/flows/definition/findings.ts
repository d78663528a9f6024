import type { Finding } from './secret-references.ts'

/** Keys and list positions that lead to a part of a flow file. */
export type Path = readonly (string | number)[]

/** A finding at a key. */
export type PathFinding = Finding & {
  path: Path
  /** Whether the finding concerns the key; otherwise its value. */
  isKey?: boolean
}

/** A finding with its position in the file; line and column count from 1. */
export type PlacedFinding = Finding & { key: string; line: number; column: number }

/** An invalid file may have an error in every line; the first ones suffice. */
const maxFindings = 50

/** The findings to report, in the order of the file. */
export function firstFindings(findings: readonly PlacedFinding[]): PlacedFinding[] {
  return findings
    .toSorted((left, right) => left.line - right.line || left.column - right.column)
    .slice(0, maxFindings)
}

/** For example `destinations[1].request.url`; empty for the whole file. */
export function pathText(path: Path): string {
  return path
    .map((step, index) => {
      if (typeof step === 'number') return `[${step}]`
      const name = /^[\p{L}_][\p{L}\p{N}_-]*$/u.test(step)
        ? step
        : JSON.stringify(step.slice(0, 80))
      return index === 0 ? name : `.${name}`
    })
    .join('')
}
