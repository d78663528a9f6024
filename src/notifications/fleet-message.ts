import { actionOf, type Cause, causes } from '../fleet/causes.ts'
import type { HealthState, Particulars, SubjectKind } from '../fleet/health-states.ts'
import { messageOf } from '../fleet/health-texts.ts'
import type { TroubleRow } from '../repositories/notifications/message-queries.ts'
import { textIn } from '../texts/texts.ts'
import type { Locale, MessageText, Notification } from './channel.ts'
import {
  boxName,
  clockTime,
  messageId,
  oneLine,
  plainText,
  testNotification,
} from './message-parts.ts'
import type { FlowReceiver } from './receivers.ts'

/** One part that a message is about, in its state at that time. */
type Concerned = {
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
const roots: readonly string[] = ['connection', 'destination']

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

/** The message as channels send it. */
export function fleetNotification(message: FleetMessage): Notification {
  const { id, at, kind } = message
  return {
    id,
    at,
    text: (locale) => textOf(message, locale),
    event: {
      type: kind === 'trouble' ? 'fleet.trouble' : 'fleet.recovered',
      data: dataOf(message),
    },
  }
}

/** A test message for a receiver of the settings. */
export function fleetTestNotification(message: { id: string; at: string }): Notification {
  const event = { type: 'fleet.test', data: {} }
  return testNotification(message, event, (locale) => [
    textIn(locale, 'message.fleet.test'),
    textIn(locale, 'message.fleet.test_fact'),
  ])
}

function dataOf(message: FleetMessage): object {
  const { cause, subjects, more, dependents, at } = message
  return {
    cause,
    action: actionOf(isKnown(cause) ? cause : null),
    subjects: subjects.map((one) => ({
      kind: one.kind,
      ...(one.kind === 'box' && { client: one.scope, caja_id: one.name }),
      ...(one.kind === 'connection' && { client: one.scope }),
      ...(one.kind === 'flow' && { flow: one.name }),
      ...(one.kind === 'destination' && { flow: one.scope, destination: one.name }),
      state: message.kind === 'recovered' ? 'ok' : one.state,
      since: one.since,
      message: sentence(message, one, 'en', new Date(at)),
    })),
    more,
    dependents,
  }
}

function textOf(message: FleetMessage, locale: Locale): MessageText {
  const { subjects, more, dependents } = message
  const isOver = message.kind === 'recovered'
  const about = new Date(message.at)
  const [first, second] = subjects
  const others = subjects.length - 2 + more
  const names = [
    [first, second].flatMap((one) => (one ? [nameOf(one, locale)] : [])).join('; '),
    ...(others > 0 ? [textIn(locale, 'message.fleet.more', { count: others })] : []),
  ].join(' ')
  const title = oneLine(
    `${names}: ${isOver ? textIn(locale, 'message.fleet.recovered') : clause(message, locale)}`,
  )
  const text = plainText(title, [
    ...subjects.map((one) => {
      const said = sentence(message, one, locale, about)
      const time =
        one.since === null
          ? ''
          : ` ${textIn(locale, 'message.since', { time: clockTime(one.since) })}.`
      return oneLine(
        `${nameOf(one, locale)}: ${isOver ? textIn(locale, 'message.fleet.was', { text: said }) : said}${time}`,
      )
    }),
    ...(more > 0 ? [textIn(locale, 'message.fleet.more', { count: more })] : []),
    ...(dependents > 0 ? [textIn(locale, 'message.fleet.dependents', { count: dependents })] : []),
  ])
  return isOver ? text : { ...text, ...lookOf(message, locale) }
}

/** Where to see more: for a single flow, its errors. */
function lookOf(
  { subjects }: FleetMessage,
  locale: Locale,
): Pick<MessageText, 'advice' | 'command'> {
  const flows = new Set(subjects.map(flowOf))
  const [flow] = flows
  return flows.size === 1 && flow !== undefined
    ? {
        advice: [textIn(locale, 'message.fleet.look_at_flow')],
        command: `GET /errors?flow=${flow}`,
      }
    : { advice: [textIn(locale, 'message.fleet.look')], command: 'GET /health/fleet?only=problems' }
}

function flowOf({ kind, scope, name }: Concerned): string | undefined {
  if (kind === 'destination') return scope
  return kind === 'flow' ? name : undefined
}

/** The cause in few words, with what all subjects share. */
function clause({ cause, subjects, at }: FleetMessage, locale: Locale): string {
  const [first, ...rest] = subjects
  const common = Object.fromEntries(
    Object.entries(first?.about ?? {}).filter(([name, value]) =>
      rest.every((one) => one.about[name as keyof Particulars] === value),
    ),
  )
  const whole = messageIn({ cause, since: null, about: common }, locale, new Date(at))
  return whole.split(':', 1)[0] as string
}

function sentence({ cause }: FleetMessage, one: Concerned, locale: Locale, now: Date): string {
  return messageIn({ cause, since: null, about: one.about }, locale, now)
}

function messageIn(
  health: Pick<FleetMessage, 'cause'> & { since: Date | null; about: Particulars },
  locale: Locale,
  now: Date,
): string {
  return isKnown(health.cause) ? (messageOf(health, locale, now) ?? '') : health.cause
}

/** A process of a newer version may have written an unknown cause. */
function isKnown(cause: string): cause is keyof typeof causes {
  return Object.hasOwn(causes, cause)
}

function nameOf({ kind, scope, name }: Concerned, locale: Locale): string {
  switch (kind) {
    case 'box':
      return boxName({ client: scope, caja_id: name }, locale)
    case 'connection':
      return scope
    case 'flow':
      return name
    case 'destination':
      return `${scope} → ${name}`
  }
}
