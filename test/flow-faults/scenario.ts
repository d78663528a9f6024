import type { Chance } from './chance.ts'

/** The kinds of sources. */
export const sourceKinds = [
  'a list',
  'a list of changes',
  'a file',
  'files of changes',
  'a table',
] as const
/** The kinds of requests to a target. */
export const targetKinds = ['keys', 'own ids', 'batches', 'batches with own ids'] as const

export type SourceKind = (typeof sourceKinds)[number]
export type TargetKind = (typeof targetKinds)[number]

/** What causes the polls of a flow: the harness, requests that name keys, or its schedule. */
export type PolledBy = 'harness' | 'keys' | 'schedule'

/** The features and faults of one flow, decided by its seed. */
export type Scenario = {
  source: SourceKind
  target: TargetKind
  polledBy: PolledBy
  withDeletes: boolean
  /** Many removals at once, which the guard holds back until an operator approves them. */
  isGuarded: boolean
  /** A field is missing in the source for a while. */
  losesField: boolean
  /** The ERP names the keys of some changed items. */
  namesKeys: boolean
  /** A second destination: `there` from the beginning, or `added` later. */
  second: 'there' | 'added' | undefined
  /** With a readiness marker, where the source is files. */
  withMarker: boolean
}

/** Twenty consecutive numbers have every source with every target; the rest is chance. */
export function drawScenario(chance: Chance, number: number, hasTables: boolean): Scenario {
  const drawn = sourceKinds[number % sourceKinds.length] ?? 'a list'
  const source = drawn === 'a table' && !hasTables ? 'a list' : drawn
  const target = targetKinds[number % targetKinds.length] ?? 'keys'
  const polledBy = drawPolledBy(chance, source)
  const isPlain = polledBy === 'harness'
  // A query names its columns, so it fails by itself when one is missing.
  const isOpen = source === 'a list' || source === 'a file'
  const losesField = isPlain && isOpen && chance.maybe('loses a field', 0.35)
  const withDeletes = source !== 'files of changes' && !losesField && chance.maybe('deletes', 0.6)
  const isList = source === 'a list' || source === 'a list of changes'
  return {
    source,
    target,
    polledBy,
    withDeletes,
    isGuarded: withDeletes && isPlain && chance.maybe('guarded', 0.5),
    losesField,
    namesKeys:
      polledBy === 'keys' || (isPlain && isList && !losesField && chance.maybe('named', 0.5)),
    second:
      isPlain && source !== 'files of changes' && chance.maybe('second', 0.4)
        ? chance.pick('second kind', ['there', 'added'] as const)
        : undefined,
    withMarker: chance.maybe('marker', 0.5),
  }
}

function drawPolledBy(chance: Chance, source: SourceKind): PolledBy {
  if (source !== 'a list') return 'harness'
  return chance.pick('polled by', ['harness', 'harness', 'keys', 'schedule'] as const)
}

/** The events that a run counts. A fault that never takes effect proves nothing. */
export const runEvents = [
  'a process was suspended while another took over',
  'a process was suspended before the first byte of a request',
  'a late request was overtaken by a newer one',
  'a delivery sent under an expired lease was requeued',
  'a clock was set',
  'an item was synced',
  'a request named the key of a changed item',
  'a request for a key was to be repeated',
  'a flow was polled by its schedule',
  'a file was incomplete for a while',
  'a field was missing and came back',
  'deletes waited for approval and were approved',
  'the delete of one item was approved',
  'a destination was filled again',
  'a destination was added and filled',
  'the target gave an item its id',
  'an item was looked up and found',
  'an item was missing at the shop and created again',
  'a batch got an answer per item',
  'the body of an answer requested a retry',
  'an item was reported in sync',
] as const

/** Events that need several processes; an embedded database has one. */
export const ofSeveralProcesses: ReadonlySet<RunEvent> = new Set([
  'a process was suspended while another took over',
  'a process was suspended before the first byte of a request',
  'a late request was overtaken by a newer one',
  'a delivery sent under an expired lease was requeued',
])

export type RunEvent = (typeof runEvents)[number]

/** The count of each event. */
export type EventCounts = Map<string, number>

export function createEventCounts(): { counts: EventCounts; countEvent(what: RunEvent): void } {
  const counts: EventCounts = new Map()
  return { counts, countEvent: (what) => void counts.set(what, (counts.get(what) ?? 0) + 1) }
}
