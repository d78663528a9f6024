import type { Dispatcher } from 'undici'
import { type Reason, ReasonError } from '../../domain/flow-reasons.ts'
import { guardedRequest } from '../../outbound/guarded-request.ts'
import { isPassingStatus } from '../../outbound/retry-decision.ts'
import { jsonOf } from '../destinations/http-text.ts'
import type { HttpDefinition } from '../types.ts'

/** The token endpoint and the client (RFC 6749). */
export type OAuthClient = Pick<
  NonNullable<HttpDefinition['auth']>,
  'tokenUrl' | 'clientId' | 'clientSecret' | 'scope' | 'clientAuth'
>

export type TokenGrant = {
  accessToken: string
  /** The next refresh token, if the issuer returned one. */
  refreshToken: string | undefined
  lifeSeconds: number
}

/** The issuer returned no token. `why` contains no secret. */
export class TokenError extends ReasonError {
  /** The issuer's error. */
  readonly said: Reason
  readonly status: number | undefined
  /** Whether a later request may succeed with the same credentials. */
  readonly isOutage: boolean
  /** The issuer's error code, one of RFC 6749, 5.2. */
  readonly code: string | undefined

  /** The pause that the issuer asks for, or null. */
  readonly retryAfterSeconds: number | null

  constructor(
    status: number | undefined,
    isOutage: boolean,
    { code, retryAfterSeconds = null }: { code?: string; retryAfterSeconds?: number | null } = {},
  ) {
    const said: Reason =
      status === undefined
        ? { code: 'TOKEN_NOT_IN_ANSWER' }
        : { code: 'ANSWERED', data: { status, said: code } }
    super({ code: 'TOKEN_FAILED', data: { said } })
    this.said = said
    this.status = status
    this.isOutage = isOutage
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
  }
}

const defaultLifeSeconds = 3600
/** Known codes only: any other text of an issuer may contain anything, even the token. */
const codes = [
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
]

/** Requests a token. Rejects with TokenError, or with RequestFailure when no response came. */
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
  const { status, retryAfterSeconds, ...response } = await guardedRequest({
    agent,
    method: 'POST',
    url: tokenUrl.reveal(),
    headers,
    body: form.toString(),
    timeoutMs,
  })
  const answer = (jsonOf(response) ?? {}) as Record<string, unknown>
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

/** Whether the value is allowed in a header. */
function isToken(value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)
}
