import type { AskedBy } from '../db/column-types.ts'
import { AppError, type ErrorExtra } from '../errors/app-error.ts'
import type { Actor, PaymentDeps } from './deps.ts'

/** Where evidence came from; kept in the order's history. */
export type EvidenceSource = 'api' | 'webhook' | 'sweeper' | 'search'

/** Why something is done, for whom and until when. It is passed on unchanged to every call. */
export type RequestContext = {
  source: EvidenceSource
  actor: Actor
  /** The deadline by `deps.stopwatch`. Waits and repeated calls share it. */
  untilMs: number
  /** Whether the client is still connected, as far as this machine knows. */
  isConnected: () => Promise<boolean>
}

/** A request is answered within this time, whatever the provider does. */
export const answerWithinMs = 24_000
/** Time after the deadline to store the result and to send the answer. */
const answerMs = 500
/** A cancel or refund may spend this on reading its order first. */
export const readFirstMs = 6_000
/** No call to the provider begins with less time left. */
export const shortestCallMs = 1_000
/** Longest status check of the service's own. */
const checkMs = 15_000

type Stopwatch = Pick<PaymentDeps, 'stopwatch'>

/** The clock of deadlines. It cannot be set. */
export function monotonicNow(): number {
  return performance.now()
}

const always = async () => true

/** A request as it arrived, and whom it authenticates. */
type Arrived = {
  /** By `deps.stopwatch`. */
  arrivedAt: number
  arrivedFrom: string
  principal: Pick<Actor, 'keyId' | 'person' | 'sessionId'> | null
}

/** Who made the request, for the audit log. Time and address are those of its arrival. */
export function actorOf(
  deps: Pick<PaymentDeps, 'now' | 'stopwatch'>,
  { arrivedAt, arrivedFrom, principal: itsOwn }: Arrived,
  principal: Arrived['principal'] = itsOwn,
): Actor {
  return {
    ipAddress: arrivedFrom,
    keyId: principal?.keyId,
    person: principal?.person,
    sessionId: principal?.sessionId,
    startedAt: new Date(deps.now().getTime() - Math.round(deps.stopwatch() - arrivedAt)),
  }
}

/** The context of an HTTP request that arrived at `arrivedMs`. */
export function requestContext(
  actor: Actor,
  arrivedMs: number,
  isConnected: RequestContext['isConnected'] = always,
): RequestContext {
  return { source: 'api', actor, untilMs: arrivedMs + answerWithinMs, isConnected }
}

/** The context of the service's own work: status checks, the sweeper, webhooks. */
export function serviceContext(
  deps: Pick<PaymentDeps, 'stopwatch' | 'now'>,
  source: EvidenceSource,
  withinMs = checkMs,
): RequestContext {
  return {
    source,
    actor: serviceActor(deps.now()),
    untilMs: deps.stopwatch() + withinMs,
    isConnected: always,
  }
}

/** The same context with a deadline at most `ms` from now. */
export function within(deps: Stopwatch, context: RequestContext, ms: number): RequestContext {
  return { ...context, untilMs: Math.min(context.untilMs, deps.stopwatch() + ms) }
}

/** The same context with the service as the actor. */
export function byService(deps: Pick<PaymentDeps, 'now'>, context: RequestContext): RequestContext {
  return { ...context, actor: serviceActor(deps.now()) }
}

/** Time left in milliseconds, negative after the deadline. */
export function timeLeftMs(deps: Stopwatch, { untilMs }: RequestContext): number {
  return untilMs - deps.stopwatch()
}

/**
 * Called right before money is moved.
 * @throws CALLER_GONE when the client has disconnected: it may have asked another process meanwhile. The error carries `undecided`, so
 * that it does not deny an equal request.
 */
export async function requireConnected(
  { isConnected }: RequestContext,
  undecided: ErrorExtra,
): Promise<void> {
  if (await isConnected()) return
  throw new AppError('CALLER_GONE', { extra: undecided })
}

/** Whether the one who asks may charge at this store, by the ERP's id. */
export function isOwnStore({ actor }: RequestContext, storeId: string): boolean {
  return actor.person?.stores?.includes(storeId) ?? true
}

/** The result of `work`; undefined when the deadline passes first. The work itself continues, since it may move money. */
export async function byDeadline<T extends object>(
  deps: Stopwatch,
  context: RequestContext,
  work: Promise<T>,
): Promise<T | undefined> {
  const over = Promise.withResolvers<undefined>()
  const leftMs = Math.max(0, timeLeftMs(deps, context) + answerMs)
  const timer = setTimeout(() => over.resolve(undefined), leftMs)
  try {
    return await Promise.race([work, over.promise])
  } finally {
    clearTimeout(timer)
    work.catch(() => undefined)
  }
}

/** The service itself as the one who acts: sweeper, token renewal, webhooks. */
export function serviceActor(now: Date): Actor {
  return { ipAddress: null, startedAt: now }
}

/** Who asks, in the form in which an operation keeps it; null for the service's own. */
export function askedBy({ ipAddress, keyId, person, sessionId, reason }: Actor): string | null {
  if (ipAddress === null) return null
  const kept: AskedBy = {
    address: ipAddress,
    ...(keyId !== undefined && { key_id: keyId }),
    ...(person && { person: { id: person.id, name: person.name } }),
    ...(sessionId !== undefined && { session_id: sessionId }),
    ...(reason !== undefined && { reason }),
  }
  return JSON.stringify(kept)
}

/** The actor of the end of an operation: who asked for it, also where the service ends it. */
export function actorOfEnd(operation: { asked_by: AskedBy | null }, actor: Actor): Actor {
  const { asked_by: asked } = operation
  if (actor.ipAddress !== null || asked === null) return actor
  return {
    ...actor,
    ipAddress: asked.address,
    keyId: asked.key_id,
    person: asked.person,
    sessionId: asked.session_id,
    reason: asked.reason,
  }
}
