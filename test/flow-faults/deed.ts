import type { Places } from './definition.ts'
import type { Lane } from './lane.ts'

/** Asks some process that is alive; undefined when no answer came. */
export type Control = (
  method: 'GET' | 'POST',
  path: string,
  body?: object,
) => Promise<{ status: number; body: unknown } | undefined>

export type DeedDeps = {
  control: Control
  places: Places
  flowsDir: string
  isCalm(): boolean
  /** From 0 to 1, how much of the round is over. */
  progress(): number
}

/** What somebody does about one flow, a step at a time. */
export type Deed = {
  /** The next step; while all is calm only what was begun is brought to its end. */
  step(): Promise<void>
  /** What nobody has answered for yet. */
  open(): string | undefined
}

/** Somewhere in the round, once the first import is through, since before that there is nothing that it could differ from. */
export function createTime(
  { isCalm, progress }: DeedDeps,
  { chance, web, ids }: Lane,
  what: string,
) {
  const at = chance.whole(`${what} begins`, 5, 70) / 100
  return () => !isCalm() && progress() >= at && web.ledger.counts.acknowledged > ids.length
}
