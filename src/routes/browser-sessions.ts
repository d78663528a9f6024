import type { FastifyRequest } from 'fastify'
import { asClientName } from '../domain/client-name.ts'
import type { Person } from '../domain/permissions.ts'
import { AppError } from '../errors/app-error.ts'
import { addressGroup } from '../http/connections.ts'
import { isFromOwnPage } from '../http/same-origin.ts'
import { createRefusedSignIns } from '../payments/audit/refused-sign-ins.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { type Credentials, signInPerson } from '../payments/people/sign-in.ts'
import {
  type Begun,
  beginTokenSession,
  endSession,
  type From,
  findSession,
  isOfAdmin,
} from '../payments/people/sign-in-session.ts'
import { actorOf } from '../payments/request-context.ts'
import type { ApiKeyRow } from '../repositories/api-keys/api-key-queries.ts'
import { deviceCookie, knownDevice } from './device-cookie.ts'
import type { Principal, TokenPrincipal } from './principal.ts'
import { type Cookie, endedCookie, sessionCookie, sessionSecretOf } from './session-cookie.ts'

type OpenSession = { principal: Principal; until: Date }
type BegunSession = OpenSession & { cookies: Cookie[] }

/** The sessions of browsers: of a key or ADMIN_TOKEN, and of named people. */
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
  /** What makes a browser forget its session. */
  signedOut(): Cookie
}

type BrowserSessionOptions = {
  adminToken: string
  principalOfToken(token: unknown): Promise<TokenPrincipal | undefined>
  principalOfKey(key: Pick<ApiKeyRow, 'id' | 'client'>): TokenPrincipal
}

export function createBrowserSessions(
  deps: PaymentDeps,
  { adminToken, principalOfToken, principalOfKey }: BrowserSessionOptions,
): BrowserSessions {
  const sessions = createSessionsOfBrowsers(deps, {
    publicUrl: deps.settings.publicUrl,
    refused: 'session.refused',
    foreignPage: () =>
      new AppError('FORBIDDEN', { message: 'Requests from other sites are refused' }),
  })
  const { isSecure, recordRefusal } = sessions

  const begin: BrowserSessions['begin'] = (begun, request) => ({
    principal: { ...principalOf(begun.person), sessionId: begun.sessionId },
    until: begun.until,
    cookies: sessions.cookiesOf(begun, request),
  })

  const session: BrowserSessions['session'] = async (request) => {
    const open = await sessions.find(request)
    if (!open) return undefined
    const ofWhom = (principal: Principal) => ({
      principal: { ...principal, sessionId: open.id },
      until: open.expiresAt,
    })
    if (open.person) return ofWhom(principalOf(open.person))
    if (open.key) return ofWhom(principalOfKey(open.key))
    return isOfAdmin(open, open.secret, adminToken) ? ofWhom({ type: 'admin' }) : undefined
  }

  return {
    begin,
    async signInPerson(credentials, request) {
      const begun = await sessions.signIn(credentials, request)
      return begun && begin(begun, request)
    },
    async signIn(token, request) {
      const principal = await principalOfToken(token)
      if (!principal) {
        await recordRefusal(actorOf(deps, request, null))
        return undefined
      }
      const owner =
        principal.type === 'admin'
          ? { adminToken }
          : { key: { id: principal.keyId, client: principal.client } }
      const { secret, until } = await beginTokenSession(deps, owner, fromOf(deps, request))
      return { principal, until, cookies: [sessionCookie(secret, isSecure)] }
    },
    session,
    refuseForeignPage: sessions.refuseForeignPage,
    signOut: sessions.end,
    signedOut: () => endedCookie(isSecure),
  }
}

/** What both listeners do with the sessions of browsers. `publicUrl`: where browsers reach the listener. */
export function createSessionsOfBrowsers(
  deps: PaymentDeps,
  {
    publicUrl,
    refused,
    foreignPage,
  }: {
    publicUrl: string
    refused: Parameters<typeof createRefusedSignIns>[1]
    foreignPage: () => AppError
  },
) {
  const recordRefusal = createRefusedSignIns(deps, refused)
  const ownOrigin = new URL(publicUrl).origin
  const isSecure = ownOrigin.startsWith('https:')
  const cookies = { encryption: deps.encryption, isSecure }
  return {
    isSecure,
    recordRefusal,
    /** The session of the request's cookie, with its secret. */
    async find(request: FastifyRequest) {
      const secret = mayUseCookie(request, ownOrigin)
        ? sessionSecretOf(request, isSecure)
        : undefined
      const open = secret === undefined ? undefined : await findSession(deps, secret)
      return secret === undefined || !open ? undefined : { ...open, secret }
    },
    signIn(credentials: Credentials, request: FastifyRequest): Promise<Begun | undefined> {
      const device = knownDevice(request, credentials.name, cookies)
      return signInPerson(deps, credentials, { ...fromOf(deps, request), device }, recordRefusal)
    },
    cookiesOf({ secret, person }: Begun, request: FastifyRequest): Cookie[] {
      return [sessionCookie(secret, isSecure), deviceCookie(request, person.name, cookies)]
    },
    /** Ends the session of the request's cookie, if it has one, in every process. */
    async end(request: FastifyRequest): Promise<void> {
      const secret = sessionSecretOf(request, isSecure)
      if (secret !== undefined) await endSession(deps, secret, actorOf(deps, request, null))
    },
    refuseForeignPage({ headers }: FastifyRequest): void {
      if (!isFromOwnPage(headers, { ownOrigin, isRead: true })) throw foreignPage()
    },
  }
}

/**
 * Whether the cookie of the request counts: another page may have sent it. Other pages need a preflight for JSON, which is always
 * refused.
 */
function mayUseCookie({ headers, method }: FastifyRequest, ownOrigin: string): boolean {
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
