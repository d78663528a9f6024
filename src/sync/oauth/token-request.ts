import type { Dispatcher } from 'undici'
import { type Reason, sentenceOf } from '../../domain/flow-reasons.ts'
import type { Secret } from '../../domain/secret.ts'
import { guardedRequest, isPassingStatus } from '../../outbound/guarded-request.ts'
import { jsonOf } from '../destinations/http-text.ts'

/** Where tokens are asked for, and by whom (RFC 6749). */
export type OAuthClient = {
  tokenUrl: Secret
  clientId: Secret
  clientSecret: Secret
  scope?: string | undefined
  /** How the client proves itself: by HTTP basic authentication, or in the form. */
  clientAuth: 'basic' | 'form'
}

export type TokenGrant = {
  accessToken: string
  /** The next one, where the issuer hands one out. */
  refreshToken: string | undefined
  lifeSeconds: number
}

/** No token came. `why` holds no secret. */
export class TokenError extends Error {
  readonly why: Reason
  readonly status: number | undefined
  /** Whether the issuer may answer otherwise later, and not for other credentials. */
  readonly isOutage: boolean
  /** Of the issuer, one of RFC 6749, 5.2. */
  readonly code: string | undefined

  /** The pause that the issuer asks for; null without one. */
  readonly retryAfterSeconds: number | null

  constructor(
    status: number | undefined,
    isOutage: boolean,
    { code, retryAfterSeconds = null }: { code?: string; retryAfterSeconds?: number | null } = {},
  ) {
    const what = status === undefined ? 'the answer has none' : `HTTP ${status}`
    const why = {
      code: 'TOKEN_FAILED',
      data: { said: code === undefined ? what : `${what} ${code}` },
    } as const
    super(sentenceOf(why, 'en'))
    this.why = why
    this.status = status
    this.isOutage = isOutage
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
  }
}

const defaultLifeSeconds = 3600
/** Any other word of an issuer may be anything, the token itself included. */
const codes = [
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
]

/** Asks for a token. Rejects with TokenError, or RequestFailure when no answer came. */
export async function requestToken(
  { tokenUrl, clientId, clientSecret, clientAuth, scope }: OAuthClient,
  grant: Readonly<Record<string, string>>,
  { agent, timeoutMs }: { agent: Dispatcher; timeoutMs: number },
): Promise<TokenGrant> {
  const form = new URLSearchParams(grant)
  if (scope !== undefined) form.set('scope', scope)
  const headers: Record<string, string> = {
    accept: 'application/json',
    'content-type': 'application/x-www-form-urlencoded',
  }
  if (clientAuth === 'form') {
    form.set('client_id', clientId.reveal())
    form.set('client_secret', clientSecret.reveal())
  } else {
    const login = [clientId, clientSecret].map((one) => encodeURIComponent(one.reveal()))
    headers.authorization = `Basic ${Buffer.from(login.join(':')).toString('base64')}`
  }
  const { status, retryAfterSeconds, ...told } = await guardedRequest({
    agent,
    method: 'POST',
    url: tokenUrl.reveal(),
    headers,
    body: form.toString(),
    timeoutMs,
  })
  const answer = (jsonOf(told) ?? {}) as Record<string, unknown>
  if (status < 200 || status > 299) {
    const code = codes.find((one) => one === answer.error)
    throw new TokenError(status, isPassingStatus(status), {
      retryAfterSeconds,
      ...(code !== undefined && { code }),
    })
  }
  const { access_token: accessToken, refresh_token: refreshToken, expires_in: life } = answer
  if (!isToken(accessToken)) throw new TokenError(undefined, false)
  return {
    accessToken,
    refreshToken: isToken(refreshToken) ? refreshToken : undefined,
    lifeSeconds: Number(life) > 0 ? Number(life) : defaultLifeSeconds,
  }
}

/** What may stand in a header. */
function isToken(value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)
}
