import type { Chance } from './chance.ts'

/** Where the items of a flow come from. */
export const sourceKinds = [
  'a list',
  'a list of what is new',
  'a file',
  'files of news',
  'a table',
] as const
/** How its target is spoken with. */
export const targetKinds = ['keys', 'own ids', 'batches', 'batches with own ids'] as const

export type SourceKind = (typeof sourceKinds)[number]
export type TargetKind = (typeof targetKinds)[number]

/** Who sees to it that a flow is polled: the one that plays with it, or only the way it is named for. */
export type PolledBy = 'everybody' | 'names' | 'schedule'

/** What is played with one flow, decided by its seed. */
export type Play = {
  source: SourceKind
  target: TargetKind
  polledBy: PolledBy
  withDeletes: boolean
  /** Many removals at once, which the guard holds back until somebody approves them. */
  isGuarded: boolean
  /** A field is gone from the source for a while. */
  losesField: boolean
  /** The ERP names the key of some of what changes. */
  isNamed: boolean
  /** A second destination: `there` from the beginning, or `added` later. */
  second: 'there' | 'added' | undefined
  /** With a marker for files that are whole, where the source is files. */
  withMarker: boolean
}

/** Every source with every target in 20 turns; the rest by chance. */
export function drawPlay(chance: Chance, turn: number, hasTables: boolean): Play {
  const drawn = sourceKinds[turn % sourceKinds.length] ?? 'a list'
  const source = drawn === 'a table' && !hasTables ? 'a list' : drawn
  const target = targetKinds[turn % targetKinds.length] ?? 'keys'
  const polledBy = drawPolledBy(chance, source)
  const isPlain = polledBy === 'everybody'
  // A query names its columns: without one of them it fails by itself.
  const isOpen = source === 'a list' || source === 'a file'
  const losesField = isPlain && isOpen && chance.maybe('loses a field', 0.35)
  const withDeletes = source !== 'files of news' && !losesField && chance.maybe('deletes', 0.6)
  const isList = source === 'a list' || source === 'a list of what is new'
  return {
    source,
    target,
    polledBy,
    withDeletes,
    isGuarded: withDeletes && isPlain && chance.maybe('guarded', 0.5),
    losesField,
    isNamed:
      polledBy === 'names' || (isPlain && isList && !losesField && chance.maybe('named', 0.5)),
    second:
      isPlain && source !== 'files of news' && chance.maybe('second', 0.4)
        ? chance.pick('second kind', ['there', 'added'] as const)
        : undefined,
    withMarker: chance.maybe('marker', 0.5),
  }
}

function drawPolledBy(chance: Chance, source: SourceKind): PolledBy {
  if (source !== 'a list') return 'everybody'
  return chance.pick('polled by', ['everybody', 'everybody', 'names', 'schedule'] as const)
}

/** What is counted of a run beside its kills; one that never takes effect proves nothing. */
export const happenings = [
  'a process stood still while another took over',
  'a process stood still before the first byte of a request',
  'a late request was overtaken by a newer one',
  'what was sent under a lost claim was owed again',
  'a clock was set',
  'an item was synced',
  'the key of a changed item was named',
  'a key was to be named again',
  'a flow was polled by its schedule',
  'a file was cut for a while',
  'a field was missing, and back',
  'deletes were held, and approved',
  'the delete of one item was approved',
  'a destination was filled again',
  'a destination was added and filled',
  'an item got its own id',
  'an item was looked up and found',
  'an item was gone at the shop and created anew',
  'a batch got an answer per item',
  'an answer asked for another attempt by what it said',
  'an item was said to be in sync',
] as const

/** An embedded database is one process's alone, and no server where a source could have its table. */
export const ofSeveralProcesses: ReadonlySet<Happening> = new Set([
  'a process stood still while another took over',
  'a process stood still before the first byte of a request',
  'a late request was overtaken by a newer one',
  'what was sent under a lost claim was owed again',
])

export type Happening = (typeof happenings)[number]

/** How often each happened. */
export type Happened = Map<string, number>

export function createHappened(): { counts: Happened; note(what: Happening): void } {
  const counts: Happened = new Map()
  return { counts, note: (what) => void counts.set(what, (counts.get(what) ?? 0) + 1) }
}
