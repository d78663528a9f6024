import type { Dispatcher } from 'undici'
import { guardedRequest } from '../../outbound/guarded-request.ts'
import { isPassingStatus } from '../../outbound/retry.ts'
import { type Reason, ReasonError } from '../../texts/reason.ts'
import type { OAuthDefinition } from '../definition/oauth-schema.ts'
import { isHtmlPage, jsonOf } from '../net/http-text.ts'

/** The token endpoint and the client (RFC 6749). */
export type OAuthClient = Pick<
  OAuthDefinition,
  'tokenUrl' | 'clientId' | 'clientSecret' | 'scope' | 'clientAuth'
>

export type IssuedTokens = {
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
  /** What answered is not the issuer, such as a page of a proxy. */
  readonly isForeign: boolean

  /** The pause that the issuer asks for, or null. */
  readonly retryAfterSeconds: number | null

  constructor(
    status: number | undefined,
    isOutage: boolean,
    {
      code,
      retryAfterSeconds = null,
      isForeign = false,
    }: { code?: string; retryAfterSeconds?: number | null; isForeign?: boolean } = {},
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
    this.isForeign = isForeign
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
): Promise<IssuedTokens> {
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
  const given = jsonOf(response)
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given)
  const isSuccess = status >= 200 && status <= 299
  // A refusal without JSON may be the issuer's own; a page, or a success without JSON, is not.
  if (isSuccess ? !isObject : isHtmlPage(response)) {
    throw new TokenError(status, true, { retryAfterSeconds, isForeign: true })
  }
  const answer = isObject ? (given as Record<string, unknown>) : {}
  if (!isSuccess) {
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
