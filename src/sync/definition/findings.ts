import type { Finding } from './references.ts'

/** The keys and list positions that lead to a part of a flow file. */
export type Path = readonly (string | number)[]

/** What is wrong at a key. `offset` is an index into the text that stands there. */
export type PathFinding = Finding & {
  path: Path
  /** Whether the key itself is wrong; else its value is. */
  isKey?: boolean
  offset?: number
}

/** What is wrong at a place of the file; line and column count from 1. */
export type PlacedFinding = Finding & { key: string; line: number; column: number }

/** `destinations[1].request.url`; empty for the file as a whole. */
export function keyText(path: Path): string {
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
