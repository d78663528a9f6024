import type { Cause } from '../fleet/causes.ts'
import type { HealthState, Particulars, SubjectKind } from '../fleet/health-states.ts'
import type { TroubleRow } from '../repositories/notifications/message-queries.ts'
import { messageId } from './message-parts.ts'
import type { FlowReceiver } from './receivers.ts'

/** One part that a message is about, in its state at that time. */
export type Concerned = {
  kind: SubjectKind
  scope: string
  name: string
  state: HealthState
  /** ISO 8601. */
  since: string | null
  about: Particulars
}

/** A trouble of one cause, or its end. */
export type FleetMessage = {
  id: string
  at: string
  kind: 'trouble' | 'recovered'
  cause: Cause
  /** The first affected parts; limited. */
  subjects: Concerned[]
  /** How many more there are. */
  more: number
  /** Boxes and flows that are in trouble only because of the subjects. */
  dependents: number
}

/** Readers skip longer mails. */
const subjectsNamed = 20
const roots: readonly string[] = ['connection', 'provider', 'destination']

/**
 * One message per cause: a lost connection is one message, not one per box. The id derives from content and time, so
 * it is the same for every attempt to send.
 */
export function composeFleetMessages(
  kind: 'trouble' | 'recovered',
  rows: readonly TroubleRow[],
  now: Date,
): FleetMessage[] {
  const at = now.toISOString()
  return [...Map.groupBy(rows, ({ cause }) => cause)].map(([cause, group]) => {
    const begun = group.filter((row) => roots.includes(row.kind))
    const named = begun.length > 0 ? begun : group
    const sorted = named.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
    return {
      id: messageId('fleet', kind, cause, at, ...sorted.map(keyOf)),
      at,
      kind,
      // The cause may come from a newer version that has more causes.
      cause: cause as Cause,
      subjects: sorted.slice(0, subjectsNamed).map(concernedOf),
      more: Math.max(0, sorted.length - subjectsNamed),
      dependents: group.length - named.length,
    }
  })
}

/** The rows that a receiver of a flow is notified of. */
export function rowsFor(
  { flow, destinations }: Pick<FlowReceiver, 'flow' | 'destinations'>,
  rows: readonly TroubleRow[],
): TroubleRow[] {
  return rows.filter(({ kind, scope, name, about }) => {
    if (kind === 'destination') return scope === flow && destinations.has(name)
    // Trouble of a flow that comes from a destination is in the row of that destination.
    return kind === 'flow' && name === flow && (about as Particulars).destination === undefined
  })
}

function keyOf({ kind, scope, name }: TroubleRow): string {
  return JSON.stringify([kind, scope, name])
}

function concernedOf({ kind, scope, name, state, since, about }: TroubleRow): Concerned {
  return {
    kind,
    scope,
    name,
    state: state as HealthState,
    since: since?.toISOString() ?? null,
    about: about as Particulars,
  }
}
