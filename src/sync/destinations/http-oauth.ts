import type { Dispatcher } from 'undici'
import { sameSecret } from '../../domain/constant-time.ts'
import type { Secret } from '../definition/secret.ts'
import { guardedRequest } from '../net/request.ts'
import { jsonOf } from './http-judge.ts'

/** OAuth 2.0 client credentials (RFC 6749, 4.4). */
export type OAuthSettings = {
  tokenUrl: Secret
  clientId: Secret
  clientSecret: Secret
  scope?: string | undefined
  /** How the client proves itself: by HTTP basic authentication, or in the form. */
  clientAuth: 'basic' | 'form'
}

/** No token came. `message` holds no secret. */
export class TokenError extends Error {
  readonly status: number | undefined
  /** Whether the issuer is in trouble, and not the credentials. */
  readonly isOutage: boolean

  constructor(status: number | undefined, isOutage: boolean) {
    super(`no access token: ${status === undefined ? 'the answer has none' : `HTTP ${status}`}`)
    this.status = status
    this.isOutage = isOutage
  }
}

export type Tokens = {
  /** One that is fresh, asked for when there is none; one question for all who want it. Rejects with TokenError or RequestFailure. */
  get(): Promise<string>
  /** The receiver does not take it: the next one is asked for. */
  refused(token: string): void
  /** What no message may show. */
  secrets(): string[]
}

const defaultLifeSeconds = 3600
/** Of its life, so that none runs out on its way. */
const usedShare = 0.9

/** Access tokens live in this process only; the secret that gets them is in the flow file's references. */
export function createTokens(
  settings: OAuthSettings,
  { agent, timeoutMs, nowMs }: { agent: Dispatcher; timeoutMs: number; nowMs: () => number },
): Tokens {
  let known: { token: string; until: number } | undefined
  let asking: Promise<string> | undefined

  const ask = async (): Promise<string> => {
    const { clientId, clientSecret, scope } = settings
    const form = new URLSearchParams({ grant_type: 'client_credentials' })
    if (scope !== undefined) form.set('scope', scope)
    const headers: Record<string, string> = {
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
    }
    if (settings.clientAuth === 'form') {
      form.set('client_id', clientId.reveal())
      form.set('client_secret', clientSecret.reveal())
    } else {
      const login = [clientId, clientSecret].map((one) => encodeURIComponent(one.reveal()))
      headers.authorization = `Basic ${Buffer.from(login.join(':')).toString('base64')}`
    }
    const askedAt = nowMs()
    const { status, body } = await guardedRequest({
      agent,
      method: 'POST',
      url: settings.tokenUrl.reveal(),
      headers,
      body: form.toString(),
      timeoutMs,
    })
    if (status < 200 || status > 299) throw new TokenError(status, status >= 500 || status === 429)
    const { access_token: token, expires_in: life } = (jsonOf(body) ?? {}) as Record<
      string,
      unknown
    >
    if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token)) {
      throw new TokenError(undefined, false)
    }
    const seconds = Number(life) > 0 ? Number(life) : defaultLifeSeconds
    known = { token, until: askedAt + seconds * 1_000 * usedShare }
    return token
  }

  return {
    get: async () => {
      if (known && nowMs() < known.until) return known.token
      asking ??= ask().finally(() => {
        asking = undefined
      })
      return await asking
    },
    refused: (token) => {
      if (known && sameSecret(known.token, token)) known = undefined
    },
    secrets: () => [settings.clientSecret.reveal(), ...(known ? [known.token] : [])],
  }
}
