import { holdsTerminal } from '../domain/order-state.ts'
import type { ErrorCode } from '../errors/app-error.ts'
import type { Cause } from './causes.ts'
import {
  expiryGraceMs,
  failingBoxes,
  freshMs,
  manyRefusals,
  payingForMs,
  silentAfterMs,
} from './health-limits.ts'
import { type BoxHealth, type ConnectionHealth, type Health, healthOf } from './health-states.ts'
import type { BoxSeen, ChargeSeen, RefusalSeen } from './observations.ts'

/** What the boxes of a client show about the provider. */
type Provider = {
  /** When it last accepted a charge of one of them. */
  charged: Date | null
  /** Set when it fails for all of them. */
  failing: Health | undefined
}

/** What a box depends on, apart from its own terminal. */
type Around = Provider & { connection: ConnectionHealth | undefined }

/** The provider fails for all boxes of a client when it failed for two of them and has accepted no charge since. */
export function providerFor(boxes: readonly BoxSeen[], now: Date): Provider {
  const times = boxes.flatMap(({ charges }) =>
    charges.flatMap(({ confirmedAt }) => confirmedAt?.getTime() ?? []),
  )
  const charged = times.length === 0 ? null : new Date(times.reduce((a, b) => Math.max(a, b)))
  const failed = boxes.flatMap(({ refusal: refused }) =>
    refused &&
    causeOfCode[refused.code] === 'provider_failing' &&
    (charged === null || refused.at > charged) &&
    !isOld(refused, now)
      ? [refused]
      : [],
  )
  if (failed.length < failingBoxes) return { charged, failing: undefined }
  const first = failed.reduce((a, b) => (b.since < a.since ? b : a))
  const failing = healthOf('down', 'provider_failing', first.since, { code: first.code })
  return { charged, failing }
}

/** Whether a box can charge, by its newest observation. A declined card shows that the box works. */
export function deriveBox(seen: BoxSeen, around: Around, now: Date): BoxHealth {
  const health = stateOf(seen, around, now)
  return {
    client: seen.client,
    cajaId: seen.cajaId,
    sucursalId: seen.sucursalId,
    terminalId: seen.charges[0]?.terminalId ?? seen.terminal?.terminalId ?? null,
    ...health,
  }
}

function stateOf(seen: BoxSeen, { connection, failing, charged }: Around, now: Date): Health {
  if (connection?.state === 'down') {
    return healthOf('down', connection.cause ?? 'connection_lost', connection.since)
  }
  const own = ownTrouble(seen, charged, now)
  if (own?.state === 'down') return own
  return failing ?? own ?? withoutTrouble(seen, now)
}

/** The problem of the box itself. */
function ownTrouble(seen: BoxSeen, charged: Date | null, now: Date): Health | undefined {
  const candidates = [
    unseenCharges(seen),
    refusal(seen, charged, now),
    terminal(seen),
    overdueOnTerminal(seen, now),
  ].filter((one) => one !== undefined)
  const worst = candidates.find(({ state }) => state === 'down') ?? candidates[0]
  if (worst?.state === 'down') return worst
  return doubt(seen) ?? undecided(seen) ?? worst
}

/** Charges that the terminal did not show, since the last one that it showed. */
function unseenCharges({ charges }: BoxSeen): Health | undefined {
  const lastSeen = charges.findIndex(({ lifeAt }) => lifeAt !== null)
  const unseen = (lastSeen === -1 ? charges : charges.slice(0, lastSeen)).filter(wasUnseen)
  const [newest] = unseen
  if (!newest) return undefined
  return healthOf('down', 'terminal_silent', unseen.at(-1)?.confirmedAt ?? null, aboutOf(newest))
}

/** The provider had the charge for long enough, was asked, and no terminal had taken it. */
function wasUnseen({ creation, status, confirmedAt, checkedAt, endedAt }: ChargeSeen): boolean {
  if (creation !== 'confirmed' || confirmedAt === null) return false
  const until = status === 'created' ? checkedAt : endedAt
  return until !== null && until.getTime() - confirmedAt.getTime() >= silentAfterMs
}

const causeOfCode: Partial<Record<ErrorCode, Cause>> = {
  TERMINAL_NOT_PDV: 'terminal_standalone',
  TERMINAL_NOT_FOUND: 'terminal_missing',
  TERMINAL_BUSY: 'terminal_busy',
  OAUTH_NOT_CONNECTED: 'not_connected',
  CONNECTION_LOST: 'connection_lost',
  PROVIDER_REJECTED: 'refused',
  PROVIDER_ERROR: 'provider_failing',
  PROVIDER_TIMEOUT: 'provider_failing',
  RATE_LIMITED: 'throttled',
  SERVICE_UNAVAILABLE: 'service_failing',
  INTERNAL_ERROR: 'service_failing',
}

/** Whether a refused charge shows a problem of its box. Other errors are about the request. */
export function concernsBox(code: ErrorCode): boolean {
  return causeOfCode[code] !== undefined
}

/** The newest refusal, unless a later observation shows that its cause is over. */
function refusal(seen: BoxSeen, charged: Date | null, now: Date): Health | undefined {
  const { refusal: refused, charges } = seen
  const cause = refused && causeOfCode[refused.code]
  if (!refused || !cause) return undefined
  const begun = charges.find(({ creation }) => creation === 'confirmed')?.createdAt
  if (begun && begun > refused.at) return undefined
  switch (cause) {
    case 'terminal_busy':
      return terminalBusy(seen, refused, now)
    case 'terminal_standalone':
    case 'terminal_missing':
      // The terminal was read since: the newer finding counts.
      if (seen.terminal && seen.terminal.at > refused.at) return undefined
      return healthOf('down', cause, refused.since, { ...terminalOf(seen), count: refused.count })
    case 'not_connected':
    case 'connection_lost':
      // The state of the connection is newer.
      return undefined
    case 'refused':
      return healthOf(refused.count >= manyRefusals ? 'down' : 'attention', cause, refused.since, {
        count: refused.count,
        code: refused.code,
      })
    case 'provider_failing':
    case 'throttled':
      if ((charged !== null && charged > refused.at) || isOld(refused, now)) return undefined
      return healthOf(refused.count > 1 ? 'down' : 'attention', cause, refused.since, {
        count: refused.count,
        code: refused.code,
      })
    default:
      if (isOld(refused, now)) return undefined
      return healthOf('attention', cause, refused.since, { code: refused.code })
  }
}

/** Temporary causes may be over after this time. */
function isOld({ at }: RefusalSeen, now: Date): boolean {
  return now.getTime() - at.getTime() >= freshMs
}

/** Which charge keeps the terminal busy, after the terminal was refused to a charge. */
function terminalBusy(seen: BoxSeen, refused: RefusalSeen, now: Date): Health | undefined {
  const occupying = seen.charges.find(occupiesTerminal)
  if (!occupying) {
    const hasEnded = seen.charges.some(({ endedAt }) => endedAt !== null && endedAt > refused.at)
    return hasEnded ? undefined : healthOf('down', 'terminal_busy', refused.since, terminalOf(seen))
  }
  const since = occupying.confirmedAt ?? occupying.createdAt
  const isPaying = occupying.lifeAt !== null && now.getTime() - since.getTime() < payingForMs
  return healthOf(isPaying ? 'attention' : 'down', 'terminal_busy', since, aboutOf(occupying))
}

function occupiesTerminal({ status, creation }: ChargeSeen): boolean {
  return creation === 'confirmed' && holdsTerminal(status)
}

/** What the last read of the terminals found. */
function terminal(seen: BoxSeen): Health | undefined {
  const { terminal: finding, charges } = seen
  if (!finding || finding.found === 'pdv') return undefined
  const begun = charges.find(({ creation }) => creation === 'confirmed')?.createdAt
  if (begun && begun > finding.at) return undefined
  const cause = finding.found === 'missing' ? 'terminal_missing' : 'terminal_standalone'
  const { refusal: refused } = seen
  const about = terminalOf(seen)
  const isSame = refused && causeOfCode[refused.code] === cause
  return healthOf('down', cause, finding.since, isSame ? { ...about, count: refused.count } : about)
}

/** A charge that stays on the terminal beyond its time, or that needs a person there. */
function overdueOnTerminal({ charges }: BoxSeen, now: Date): Health | undefined {
  for (const charge of charges) {
    const about = aboutOf(charge)
    if (charge.settledAs === null && charge.status === 'action_required') {
      return healthOf('attention', 'terminal_waits', charge.lifeAt, about)
    }
    const overMs = now.getTime() - charge.expiresAt.getTime()
    if (charge.status === 'at_terminal' && overMs > expiryGraceMs) {
      return healthOf('attention', 'terminal_busy', charge.confirmedAt, about)
    }
    // A later charge has run on the terminal, so an older one does not occupy it.
    if (charge.lifeAt !== null) return undefined
  }
  return undefined
}

/** A charge in doubt, until a person settles it or a later charge has run on the box. */
function doubt({ charges }: BoxSeen): Health | undefined {
  for (const charge of charges) {
    const { doubt: cause } = charge
    if (cause !== null) {
      const since = cause === 'in_doubt' ? charge.createdAt : charge.changedAt
      return healthOf('attention', cause, since, aboutOf(charge))
    }
    if (charge.lifeAt !== null) return undefined
  }
  return undefined
}

/** An order whose money a person must decide about. */
function undecided({ undecided: order }: BoxSeen): Health | undefined {
  if (!order) return undefined
  const { orderId, reference, instead, decision, since } = order
  const about = { orderId, reference, ...(instead !== null && { instead }) }
  return healthOf('attention', decision, since, about)
}

function withoutTrouble(seen: BoxSeen, now: Date): Health {
  const [newest] = seen.charges
  if (!newest) return healthOf('unknown', 'never_charged')
  const running = seen.charges.find(occupiesTerminal)
  const shown = seen.charges.find(({ lifeAt }) => lifeAt !== null)
  const at = shown?.endedAt ?? shown?.lifeAt ?? running?.confirmedAt
  if (!at) return healthOf('unknown', 'never_charged')
  return now.getTime() - at.getTime() < freshMs
    ? healthOf('ok', null)
    : healthOf('unknown', 'quiet', at)
}

function aboutOf({ terminalId, reference, orderId }: ChargeSeen): Health['about'] {
  return { terminalId, reference, orderId }
}

function terminalOf({ terminal: finding, charges }: BoxSeen): Health['about'] {
  const terminalId = finding?.terminalId ?? charges[0]?.terminalId
  return terminalId === undefined ? {} : { terminalId }
}
