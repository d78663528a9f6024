import type { Database } from '../../db/database.ts'
import { type Backoff, backoffMs } from '../../domain/backoff.ts'
import { DecryptionError, type Encryption, grantContext } from '../../domain/encryption.ts'
import { sameSecret } from '../../domain/secret-hash.ts'
import { withLease } from '../../jobs/with-lease.ts'
import { RequestFailure } from '../../outbound/guarded-request.ts'
import { insertFlowErrors } from '../../repositories/flows/flow-errors.ts'
import {
  beginGrantRenewal,
  endGrantRenewal,
  findOrBeginGrant,
  type GrantRenewal,
  type GrantRow,
  loseGrant,
  renewGrant,
  useGrant,
} from '../../repositories/flows/oauth-grants.ts'
import { sentenceOf } from '../../texts/reason.ts'
import {
  type OAuthSettings,
  type RefreshTokens,
  TokenBlockedError,
  type Tokens,
  type TokenUse,
  usedShare,
} from './access-tokens.ts'
import { grantIdOf, lostGrantReason } from './lost-access.ts'
import { type IssuedTokens, requestToken, TokenError } from './token-request.ts'

export type GrantKeeperDeps = {
  database: Database
  encryption: Pick<Encryption, 'encrypt' | 'decrypt'>
  now: () => Date
  sleep: (ms: number) => Promise<void>
  /** Owner of this process's leases. */
  processId: string
  log: {
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
}

type Known = {
  token: string
  version: number
  renewedAt: Date | null
  seenAtMs: number
  validMs: number
}
type Access = { id: string; settings: OAuthSettings; about: TokenUse }

/** How long a token is used without checking whether another process has renewed it. */
const tokenCacheMs = 60_000
/**
 * A token refused this soon after its renewal is not renewed: a receiver that answers 401 to every token must not cause
 * endless renewals.
 */
const minRenewalAgeMs = 60_000
const longestRequestMs = 10_000
const waitForOtherMs = 200
const longestWaitMs = 5_000
/** Time from the start of a renewal in which its process may still store tokens. A paused process may do so after its lease. */
const lateResponseMs = 30_000
/** Longest time to record the start of a renewal. After more time another process may have the lease. */
const maxStartMs = 5_000
const renewedCheckMs = 2_000
const lostCheckMs = 30_000
const usageUpdateMs = 24 * 3_600_000
const storePauses: Backoff = { firstMs: 100, longestMs: 2_000 }
const storeAttemptsAfterStop = 5

/**
 * Keeps the newest refresh token of each access, encrypted in the database. One renewal serves all destinations and processes
 * with the same first refresh token.
 *
 * A renewal invalidates the previous refresh token. So new tokens are used only after they are stored: a process that crashed
 * could otherwise lose the only valid one. After the issuer has refused a renewal, no other is requested.
 */
export class GrantKeeper implements RefreshTokens {
  readonly #deps: GrantKeeperDeps
  readonly #db: Database['db']
  readonly #renewing = new Map<string, Promise<GrantRow>>()
  #isStopped = false

  constructor(deps: GrantKeeperDeps) {
    this.#deps = deps
    this.#db = deps.database.db
  }

  /** The access tokens of a source or destination whose `grant` is `refresh_token`. */
  tokens(settings: OAuthSettings, about: TokenUse): Tokens {
    const id = grantIdOf(settings)
    if (id === undefined) throw new Error('there is nothing to renew')
    const access = { id, settings, about }
    let known: Known | undefined
    let refusedVersion = 0
    const { now } = this.#deps
    return {
      get: async () => {
        const ageMs = now().getTime() - (known?.seenAtMs ?? 0)
        if (known && ageMs >= 0 && ageMs < known.validMs) return known.token
        known = await this.#usable(access, refusedVersion)
        return known.token
      },
      refused: (token) => {
        if (!known || !sameSecret(known.token, token)) return
        const ageMs = now().getTime() - (known.renewedAt?.getTime() ?? 0)
        if (ageMs < 0 || ageMs >= minRenewalAgeMs) refusedVersion = known.version
        known = undefined
      },
      secrets: () => [
        settings.clientSecret.reveal(),
        settings.refreshToken?.reveal() ?? '',
        ...(known ? [known.token] : []),
      ],
    }
  }

  /** Waits for running renewals: their tokens exist only in this process until they are stored. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.allSettled(this.#renewing.values())
  }

  /** A token that is valid and not the refused one, renewed if need be. */
  async #usable(access: Access, refusedVersion: number): Promise<Known> {
    const { now } = this.#deps
    const found = await this.#read(access)
    const { version, access_token: token, expires_at: end } = found
    const isUsable = version !== refusedVersion && token !== null && end !== null && now() < end
    const row = isUsable ? found : await this.#renew(access, version)
    const seenAtMs = now().getTime()
    return {
      token: this.#decrypt(access.id, row.access_token ?? ''),
      version: row.version,
      renewedAt: row.renewed_at,
      seenAtMs,
      validMs: Math.min((row.expires_at?.getTime() ?? 0) - seenAtMs, tokenCacheMs),
    }
  }

  #encrypt(id: string, text: string) {
    return this.#deps.encryption.encrypt(text, grantContext(id))
  }

  #decrypt(id: string, encrypted: string) {
    try {
      return this.#deps.encryption.decrypt(encrypted, grantContext(id))
    } catch (error) {
      if (!(error instanceof DecryptionError)) throw error
      throw new TokenBlockedError(
        { code: 'TOKEN_SEALED', data: { key: String(error.keyId) } },
        lostCheckMs,
      )
    }
  }

  #useBy({ about: { usedBy } }: Access) {
    return {
      used_by: `${usedBy.flow}/${usedBy.destination}`,
      used_at: this.#deps.now(),
    }
  }

  async #read(access: Access): Promise<GrantRow> {
    const { id, settings } = access
    const first = settings.refreshToken?.reveal() ?? ''
    const use = this.#useBy(access)
    const row = await findOrBeginGrant(this.#db, {
      id,
      refresh_token: this.#encrypt(id, first),
      ...use,
    })
    if (row.lost_at) throw new TokenBlockedError(lostGrantReason(row, settings), lostCheckMs)
    if (this.#deps.now().getTime() - row.used_at.getTime() > usageUpdateMs)
      await useGrant(this.#db, id, use)
    return row
  }

  async #recordLoss(access: Access, renewal: GrantRenewal, from: GrantRow, reason: string) {
    const at = this.#deps.now()
    const { flow, destination } = access.about.usedBy
    const lost = await this.#deps.database.transaction(async (trx) => {
      if (!(await loseGrant(trx, renewal, { reason, at }))) return undefined
      // When a response may have been lost: in this renewal, or in an earlier one.
      const unansweredSince = from.unheard_since ?? from.renewal_began_at
      const why = lostGrantReason(
        { ...from, lost_reason: reason, unheard_since: unansweredSince },
        access.settings,
      )
      await insertFlowErrors(trx, [{ flow, adapter: destination, pk: '', why, at }])
      return why
    })
    if (lost)
      this.#deps.log.error(
        { flow, destination, reason: sentenceOf(lost, 'en') },
        'OAuth access lost; authorize the application again',
      )
  }

  /** Retries until the tokens are stored. A stop of the service limits the retries. */
  async #store(access: Access, from: GrantRow, grant: IssuedTokens, askedAt: Date) {
    const { id } = access
    const { accessToken, refreshToken, lifeSeconds } = grant
    const tokens = {
      access_token: this.#encrypt(id, accessToken),
      // Without a new refresh token the stored one stays. A key rotation may have encrypted it again.
      ...(refreshToken !== undefined && { refresh_token: this.#encrypt(id, refreshToken) }),
      expires_at: new Date(askedAt.getTime() + lifeSeconds * 1_000 * usedShare),
      renewed_at: this.#deps.now(),
    }
    let left = storeAttemptsAfterStop
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await renewGrant(this.#db, from, tokens, this.#useBy(access))
      } catch (error) {
        if (this.#isStopped) left -= 1
        if (left === 0) throw error
        const { usedBy } = access.about
        this.#deps.log.error(
          { ...usedBy, err: error },
          'new tokens not stored yet; the service retries',
        )
        await this.#deps.sleep(backoffMs(attempt, storePauses))
      }
    }
  }

  /** Undefined when the row has changed, or when another renewal may decide: the caller then reads the row again. */
  async #renewFrom(access: Access, from: GrantRow): Promise<GrantRow | undefined> {
    const { id, settings, about } = access
    const refresh_token = this.#decrypt(id, from.refresh_token)
    const startedMs = performance.now()
    const renewal: GrantRenewal = { from, beganAt: this.#deps.now() }
    if (!(await beginGrantRenewal(this.#db, from, renewal.beganAt))) return undefined
    if (performance.now() - startedMs > maxStartMs) {
      await endGrantRenewal(this.#db, renewal, { isUnanswered: false })
      return undefined
    }
    const { agent } = about
    const timeoutMs = Math.min(about.timeoutMs, longestRequestMs)
    let grant: IssuedTokens
    try {
      const wanted = { grant_type: 'refresh_token', refresh_token }
      grant = await requestToken(settings, wanted, { agent, timeoutMs })
    } catch (error) {
      if (error instanceof TokenError && error.code === 'invalid_grant') {
        await this.#recordLoss(access, renewal, from, error.code)
        return undefined
      }
      await endGrantRenewal(this.#db, renewal, {
        isUnanswered: !isRefreshTokenUnused(error),
      }).catch((cause) =>
        this.#deps.log.warn(
          { ...about.usedBy, err: cause },
          'end of a failed token renewal not stored',
        ),
      )
      throw blockedBy(error)
    }
    await this.#store(access, from, grant, renewal.beganAt)
    return await this.#read(access)
  }

  #mayStillArrive({ renewal_began_at: beganAt }: GrantRow) {
    if (beganAt === null) return false
    // A time in the future was stored before the clock was set back.
    return Math.abs(this.#deps.now().getTime() - beganAt.getTime()) < lateResponseMs
  }

  async #renewUnderLease(access: Access, version: number): Promise<GrantRow> {
    for (
      let waitedMs = 0;
      waitedMs <= longestWaitMs && !this.#isStopped;
      waitedMs += waitForOtherMs
    ) {
      const row = await this.#read(access)
      if (row.version !== version) return row
      if (!this.#mayStillArrive(row)) {
        const leased = await withLease(this.#deps, `oauth-grant:${access.id}`, () =>
          this.#renewFrom(access, row),
        )
        if (leased?.result) return leased.result
      }
      await this.#deps.sleep(waitForOtherMs)
    }
    throw new TokenBlockedError({ code: 'TOKEN_RENEWED_ELSEWHERE' }, renewedCheckMs)
  }

  #renew(access: Access, version: number): Promise<GrantRow> {
    const { id } = access
    const renewal =
      this.#renewing.get(id) ??
      this.#renewUnderLease(access, version).finally(() => this.#renewing.delete(id))
    this.#renewing.set(id, renewal)
    return renewal
  }
}

/**
 * Whether a failure shows that the issuer did not use up the refresh token: it refused the request, or no connection was made.
 */
function isRefreshTokenUnused(error: unknown): boolean {
  if (error instanceof TokenError) {
    // The issuer may have answered behind the page that came instead.
    return !error.isForeign && error.status !== undefined && error.status < 500
  }
  if (!(error instanceof RequestFailure)) return false
  const { kind, code } = error
  return kind === 'refused_address' || ['ECONNREFUSED', 'ENOTFOUND'].includes(code ?? '')
}

/** Any other refusal concerns the settings in the flow file, so another attempt cannot help. */
function blockedBy(error: unknown): unknown {
  if (!(error instanceof TokenError) || error.isOutage) return error
  return new TokenBlockedError({ code: 'TOKEN_REFUSED', data: { said: error.said } }, lostCheckMs)
}
