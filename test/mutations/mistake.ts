import type { ScenarioName } from '../faults/scenarios.ts'
import type { RunEvent } from '../flow-faults/scenario.ts'
import type { Change } from '../support/source-copy.ts'

/** A mistake that is planted in a copy of the source. */
export type Mistake = Change & {
  /** What the service does wrong with it. */
  name: string
  /** The other changes, where one is not enough. */
  more?: readonly Change[]
  /** Each kind that is named here must notice the mistake by itself. */
  noticedBy: NoticedBy
}

export type NoticedBy = {
  /** One of these tests fails: a file, and where the file is slow, the title of a test or a part of it. */
  tests?: readonly (readonly [file: string, title?: string])[]
  /** A schedule of this scenario fails; `backup`: one that restores a backup; `random`: one without a scenario. */
  faults?: ScenarioName | 'backup' | 'random'
  /** A run has a violation, or this event never happens, where that shows sooner. */
  'flow-faults'?: 'a violation' | RunEvent
}

export const kinds = ['tests', 'faults', 'flow-faults'] as const satisfies (keyof NoticedBy)[]
export type Kind = (typeof kinds)[number]

export function changesOf({ file, find, replace, more = [] }: Mistake): readonly Change[] {
  return [{ file, find, replace }, ...more]
}
