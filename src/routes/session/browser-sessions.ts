import { randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { asClientName } from '../../domain/client-name.ts'
import type { Person } from '../../domain/permissions.ts'
import { hashSecret, sameSecret } from '../../domain/secret-hash.ts'
import { AppError } from '../../errors/app-error.ts'
import { addressGroup } from '../../http/connections.ts'
import { isFromOwnPage } from '../../http/same-origin.ts'
import { type ActivityEntry, recordSuccess } from '../../payments/audit/activity.ts'
import { createRefusedSignIns } from '../../payments/audit/refused-sign-ins.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
import { type Credentials, signInPerson } from '../../payments/people/sign-in.ts'
import {
  type Begun,
  endSession,
  type From,
  findSession,
} from '../../payments/people/sign-in-session.ts'
import { type ApiKeyRow, findKeyById } from '../../repositories/api-keys/api-key-queries.ts'
import { deleteSession, insertSession, isSessionOpen } from '../../repositories/session/sessions.ts'
import type { Principal, TokenPrincipal } from '../authentication.ts'
import { deviceCookie, knownDevice } from './device-cookie.ts'
import {
  endedCookie,
  personCookie,
  personSecretOf,
  type Session,
  sessionCookie,
  sessionOf,
  sessionSeconds,
} from './session-cookie.ts'

type OpenSession = { principal: Principal; until: Date }
type BegunSession = OpenSession & { cookies: string[] }

/** The sessions of browsers: of a key or the administrator's token, and of named people. */
export type BrowserSessions = {
  /** A session for the principal of this token; undefined when the token is unknown or revoked. */
  signIn(token: string, request: FastifyRequest): Promise<BegunSession | undefined>
  /** A session for the person of this name; undefined when name, password or code is wrong. Throws RATE_LIMITED after too many tries. */
  signInPerson(credentials: Credentials, request: FastifyRequest): Promise<BegunSession | undefined>
  /** What the browser of the request gets for a session of a person that has begun. */
  begin(begun: Begun, request: FastifyRequest): BegunSession
  /** The session of the request's cookie, if a page of this service sent it and it has not expired. */
  session(request: FastifyRequest): Promise<OpenSession | undefined>
  /** @throws FORBIDDEN when the browser's headers show that a page of another origin sent the request */
  refuseForeignPage(request: FastifyRequest): void
  /** Ends the session of the request's cookie, if it has one, in every process. */
  signOut(request: FastifyRequest): Promise<void>
  /** The value of `set-cookie` that makes a browser forget its session. */
  signedOut(): string
}

/** Open sessions of one key, or of the administrator: repeated sign-ins must not fill the database. */
const maxSessions = 100

type BrowserSessionOptions = {
  adminToken: string
  principalOfToken(token: unknown): Promise<TokenPrincipal | undefined>
  principalOfKey(key: Pick<ApiKeyRow, 'id' | 'client'>): TokenPrincipal
}

export function createBrowserSessions(
  deps: PaymentDeps,
  { adminToken, principalOfToken, principalOfKey }: BrowserSessionOptions,
): BrowserSessions {
  const db = deps.database.db
  const recordRefusal = createRefusedSignIns(deps)
  const ownOrigin = new URL(deps.settings.publicUrl).origin
  const cookies = { encryption: deps.encryption, isSecure: ownOrigin.startsWith('https:') }
  // Binds sessions of the administrator to the token they were made with, without containing it.
  const adminProof = hashSecret(`session of ${adminToken}`)

  const sessionEntry = (
    action: 'session.started' | 'session.ended',
    request: FastifyRequest,
    principal: Principal,
    id: string,
  ): ActivityEntry => ({
    client: principal.type === 'client' ? principal.client : null,
    actor: actorOf(deps, request, principal),
    action,
    resourceId: id,
  })

  const begin: BrowserSessions['begin'] = ({ secret, sessionId, person, until }, { headers }) => ({
    principal: { ...principalOf(person), sessionId },
    until,
    cookies: [
      personCookie(secret, cookies.isSecure),
      deviceCookie(headers.cookie, person.name, cookies),
    ],
  })

  const session: BrowserSessions['session'] = async (request) => {
    const { headers } = request
    if (!mayUseCookie(request, ownOrigin)) return undefined
    const secret = personSecretOf(headers.cookie, cookies.isSecure)
    if (secret !== undefined) {
      const open = await findSession(deps, secret)
      return (
        open && {
          principal: { ...principalOf(open.person), sessionId: open.id },
          until: open.expiresAt,
        }
      )
    }
    const found = sessionOf(headers.cookie, cookies, deps.now())
    if (!found) return undefined
    if (!(await isSessionOpen(db, found.id, deps.now()))) return undefined
    const until = new Date(found.until)
    if (found.type === 'admin') {
      return sameSecret(found.proof, adminProof)
        ? { principal: { type: 'admin', sessionId: found.id }, until }
        : undefined
    }
    const key = await findKeyById(db, found.keyId)
    if (!key?.active) return undefined
    return { principal: { ...principalOfKey(key), sessionId: found.id }, until }
  }

  return {
    begin,
    async signInPerson(credentials, request) {
      const device = knownDevice(request.headers.cookie, credentials.name, cookies)
      const from = { ...fromOf(deps, request), device }
      const begun = await signInPerson(deps, credentials, from, recordRefusal)
      return begun && begin(begun, request)
    },
    async signIn(token, request) {
      const principal = await principalOfToken(token)
      if (!principal) {
        await recordRefusal(actorOf(deps, request, null))
        return undefined
      }
      const now = deps.now()
      const until = new Date(now.getTime() + sessionSeconds * 1000)
      const common = { id: randomUUID(), until: until.getTime() }
      const begun: Session =
        principal.type === 'admin'
          ? { type: 'admin', proof: adminProof, ...common }
          : { type: 'client', keyId: principal.keyId, ...common }
      const row = {
        id: common.id,
        key_id: principal.type === 'client' ? principal.keyId : null,
        created_at: now,
        expires_at: until,
      }
      await deps.database.transaction(async (trx) => {
        await insertSession(trx, row, maxSessions)
        await recordSuccess(deps, trx, sessionEntry('session.started', request, principal, row.id))
      })
      return { principal, until, cookies: [sessionCookie(begun, cookies)] }
    },
    session,
    refuseForeignPage({ headers }) {
      if (isFromOwnPage(headers, { ownOrigin, isRead: true })) return
      throw new AppError('FORBIDDEN', { message: 'Requests from other sites are refused' })
    },
    async signOut(request) {
      const secret = personSecretOf(request.headers.cookie, cookies.isSecure)
      if (secret !== undefined) return endSession(deps, secret, actorOf(deps, request, null))
      const found = sessionOf(request.headers.cookie, cookies, deps.now())
      if (!found) return
      const key = found.type === 'client' ? await findKeyById(db, found.keyId) : undefined
      const principal: Principal = key
        ? { type: 'client', client: key.client, keyId: key.id }
        : { type: 'admin' }
      await deps.database.transaction(async (trx) => {
        if (!(await deleteSession(trx, found.id))) return
        await recordSuccess(deps, trx, sessionEntry('session.ended', request, principal, found.id))
      })
    },
    signedOut: () => endedCookie(cookies.isSecure),
  }
}

/**
 * Whether the cookie of the request counts: another page may have sent it. Other pages need a preflight for JSON, which is always
 * refused.
 */
export function mayUseCookie({ headers, method }: FastifyRequest, ownOrigin: string): boolean {
  const isRead = method === 'GET' || method === 'HEAD'
  if (!isFromOwnPage(headers, { ownOrigin, isRead })) return false
  return isRead || /^application\/json\b/i.test(headers['content-type'] ?? '')
}

function principalOf(person: Person): Principal {
  if (person.client !== null) return { type: 'client', client: asClientName(person.client), person }
  return { type: person.role === 'administrator' ? 'admin' : 'operator', person }
}

/** Where a sign-in comes from. */
export function fromOf(deps: PaymentDeps, request: FastifyRequest): From {
  return {
    actor: actorOf(deps, request, null),
    group: addressGroup(request.arrivedFrom),
    userAgent: request.headers['user-agent'],
  }
}
