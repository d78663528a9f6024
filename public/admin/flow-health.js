import { t } from '../shared/i18n.js'

/**
 * How a flow fares, apart from whether it is switched on: a paused flow may be well, and a running one may have a destination
 * that rests. Worst first: `down`, `attention`, `unknown`, `ok`.
 */
const rank = { down: 0, attention: 1, unknown: 2, ok: 3 }
/** These say that somebody switched it. */
const switches = new Set(['flow_paused', 'flow_limited'])
const tones = { down: 'bad', attention: 'warn', unknown: 'quiet', ok: 'good' }

const worse = (a, b) => rank[a.state] - rank[b.state]

/** `{ state, cause, since, destination }` of the worst about a flow; `destination` is the one that it is about. */
export function healthOf(flow) {
  const targets = flow.destinations.map((one) => ({ ...one.health, destination: one }))
  const own = ownHealth(flow)
  const about = targets.find(({ cause }) => cause !== null && cause === own.cause)
  return about ?? [own, ...targets.filter(({ state }) => state !== undefined)].sort(worse)[0]
}

/** What waits for somebody stands on the card in full, with its button. */
const toldApart = new Set(['question_open'])

function ownHealth({ status, health, question, last_poll_at: polledAt, last_error: error }) {
  const base = { since: null, message: null }
  if (health && !switches.has(health.cause) && health.state !== 'ok') return health
  if (question) return { ...base, state: 'attention', cause: 'question_open' }
  if (health && !switches.has(health.cause)) return health
  if (error !== null) return { ...base, state: 'attention', cause: 'source_failing' }
  return polledAt === null && status.paused
    ? { ...base, state: 'unknown', cause: 'never_polled' }
    : { ...base, state: 'ok', cause: null }
}

export const isTrouble = ({ state }) => state === 'down' || state === 'attention'

export const isToldApart = ({ cause }) => toldApart.has(cause)

export const healthTone = (health) => tones[health.state]

export function healthWord({ state, cause }) {
  if (cause === 'sending_stopped') return t('sending.stopped')
  return t(cause === 'destination_failing' ? 'health.resting' : `health.${state}`)
}

/** What is wrong, in a few words that name the destination. */
export function causeText({ cause, destination }) {
  return t(`cause.${cause}`, { destination: destination?.name ?? '' })
}

/** The ways to pick flows, by the word in the address. */
export const picks = {
  attention: (flow) => flow.status.paused || isTrouble(healthOf(flow)),
  failing: (flow) => isTrouble(healthOf(flow)) && healthOf(flow).cause !== 'sending_stopped',
  resting: (flow) => flow.destinations.some(({ sending }) => rests(sending)),
  paused: (flow) => flow.status.paused,
  stopped: (flow) => flow.destinations.some(({ sending }) => sending.state === 'stopped'),
  limited: (flow) => flow.status.runLimit !== null,
  healthy: (flow) => healthOf(flow).state === 'ok',
}

/** Nothing is sent there now. */
export function rests({ state }) {
  return state === 'open' || state === 'silent' || state === 'probing'
}

const naturally = new Intl.Collator(undefined, { numeric: true })

/** Worst first; of those that fare alike, what is switched off before what runs. */
export function worstFirst(flows) {
  return flows
    .map((flow) => ({ flow, health: healthOf(flow) }))
    .sort(
      (a, b) =>
        worse(a.health, b.health) ||
        Number(b.flow.status.paused) - Number(a.flow.status.paused) ||
        naturally.compare(a.flow.name, b.flow.name),
    )
}
