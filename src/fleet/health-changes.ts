import type {
  FleetChangeRow,
  FleetStateRow,
  NewFleetChange,
} from '../repositories/fleet/fleet-states.ts'
import { type Cause, causesOfOneOrder } from './causes.ts'
import {
  type FleetHealth,
  type Health,
  type HealthState,
  listHealth,
  type Particulars,
  type Subject,
  subjectKey,
} from './health-states.ts'

/** A change of a state. */
export type FleetChange = {
  id: number
  at: Date
  subject: Subject
  from: { state: HealthState; cause: Cause | null } | null
  /** `gone`: the box, connection, flow or destination no longer exists. */
  to: Omit<Health, 'state'> & { state: HealthState | 'gone' }
}

export type KnownStates = ReadonlyMap<string, FleetStateRow>

/** The same states; one with an unchanged cause keeps the time since when it was known. */
export function sinceBegan(health: FleetHealth, known: KnownStates): FleetHealth {
  const begun = new Map(
    listHealth(health).map(({ subject, health: one }) => [
      one,
      beginningOf(one, known.get(subjectKey(subject)), health.at),
    ]),
  )
  const dated = <T extends Health>(one: T): T => ({ ...one, since: begun.get(one) ?? one.since })
  return {
    at: health.at,
    boxes: health.boxes.map(dated),
    connections: health.connections.map(dated),
    flows: health.flows.map((flow) => ({
      ...dated(flow),
      destinations: flow.destinations.map(dated),
    })),
  }
}

function beginningOf(health: Health, known: FleetStateRow | undefined, at: Date): Date {
  return known && known.cause === health.cause && !isOfOtherOrder(health, known)
    ? (known.since ?? health.since ?? at)
    : (health.since ?? at)
}

function isOfOtherOrder({ cause, about }: Health, known: FleetStateRow): boolean {
  if (cause === null || !causesOfOneOrder.includes(cause)) return false
  return about.orderId !== (known.about as Particulars).orderId
}

/** The changes since the known states, including what is gone. */
export function findChanges(
  rows: readonly FleetStateRow[],
  derived: FleetHealth,
  { hasFlows }: { hasFlows: boolean },
): NewFleetChange[] {
  const known: KnownStates = new Map(rows.map((row) => [subjectKey(row), row]))
  const at = derived.at
  const now = listHealth(sinceBegan(derived, known))
  const changed = now.flatMap(({ subject, health }): NewFleetChange[] => {
    const before = known.get(subjectKey(subject))
    const isSame = before?.state === health.state && before.cause === health.cause
    if (isSame && !isOfOtherOrder(health, before)) return []
    const { state, cause, since, about } = health
    return [changeOf(at, subject, before, { state, cause, since, about })]
  })
  const there = new Set(now.map(({ subject }) => subjectKey(subject)))
  const gone = rows
    .filter((row) => !there.has(subjectKey(row)))
    .filter(({ kind }) => hasFlows || (kind !== 'flow' && kind !== 'destination'))
    .map((row) => changeOf(at, row, row, { state: 'gone', cause: null, since: at, about: {} }))
  return [...changed, ...gone]
}

function changeOf(
  at: Date,
  { kind, scope, name }: Subject,
  before: FleetStateRow | undefined,
  after: FleetChange['to'],
): NewFleetChange {
  return {
    at,
    kind,
    scope,
    name,
    from_state: before?.state ?? null,
    from_cause: before?.cause ?? null,
    ...after,
  }
}

/** A newer version may have stored a cause that this one does not have. */
const causeOf = (stored: string | null) => stored as Cause | null

export function revive(row: Pick<FleetStateRow, 'state' | 'cause' | 'since' | 'about'>): Health {
  return {
    state: row.state,
    cause: causeOf(row.cause),
    since: row.since,
    about: row.about,
  }
}

export function toChange(row: FleetChangeRow): FleetChange {
  const { id, at, kind, scope, name, state, cause, since, about } = row
  return {
    id,
    at,
    subject: { kind, scope, name },
    from:
      row.from_state === null ? null : { state: row.from_state, cause: causeOf(row.from_cause) },
    to: { state, cause: causeOf(cause), since, about },
  }
}
