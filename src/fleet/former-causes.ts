import type { Cause } from './causes.ts'
import type { Particulars } from './health-states.ts'

/** Names that the version before writes while both versions run. */
const formerCauses: Readonly<Record<string, Cause>> = {
  destination_resting: 'destination_failing',
  owed_for_long: 'deliveries_late',
  terminal_held: 'terminal_busy',
}

/** A stored cause by its present name. A word of a newer version stays as it is. */
export function presentCause(word: string): Cause
export function presentCause(word: string | null): Cause | null
export function presentCause(word: string | null) {
  return word === null ? null : (formerCauses[word] ?? (word as Cause))
}

/** Stored values of a sentence by their present names. */
export function presentAbout({ owed, ...about }: Record<string, unknown>): Particulars {
  return owed === undefined ? about : { ...about, pending: Number(owed) }
}
