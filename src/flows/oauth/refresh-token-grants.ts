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
  TokenBlockedError,
  type Tokens,
  type TokenUse,
  usedShare,
} from './access-tokens.ts'
import { grantIdOf, lostGrantReason } from './lost-access.ts'
import { requestToken, TokenError, type TokenGrant } from './token-request.ts'

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

export type GrantKeeper = {
  /** The access tokens of a source or destination whose `grant` is `refresh_token`. */
  tokens(settings: OAuthSettings, about: TokenUse): Tokens
  /** Waits for running renewals: their tokens exist only in this process until they are stored. */
  stop(): Promise<void>
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
export function createGrantKeeper(deps: GrantKeeperDeps): GrantKeeper {
  const { database, encryption, now, log } = deps
  const { db } = database
  const renewing = new Map<string, Promise<GrantRow>>()
  let stopped = false

  const encrypt = (id: string, text: string) => encryption.encrypt(text, grantContext(id))
  const decrypt = (id: string, encrypted: string) => {
    try {
      return encryption.decrypt(encrypted, grantContext(id))
    } catch (error) {
      if (!(error instanceof DecryptionError)) throw error
      throw new TokenBlockedError(
        { code: 'TOKEN_SEALED', data: { key: String(error.keyId) } },
        lostCheckMs,
      )
    }
  }
  const useBy = ({ about: { usedBy } }: Access) => ({
    used_by: `${usedBy.flow}/${usedBy.destination}`,
    used_at: now(),
  })
  const read = async (access: Access): Promise<GrantRow> => {
    const { id, settings } = access
    const first = settings.refreshToken?.reveal() ?? ''
    const use = useBy(access)
    const row = await findOrBeginGrant(db, { id, refresh_token: encrypt(id, first), ...use })
    if (row.lost_at) throw new TokenBlockedError(lostGrantReason(row, settings), lostCheckMs)
    if (now().getTime() - row.used_at.getTime() > usageUpdateMs) await useGrant(db, id, use)
    return row
  }

  const recordLoss = async (
    access: Access,
    renewal: GrantRenewal,
    from: GrantRow,
    reason: string,
  ) => {
    const at = now()
    const { flow, destination } = access.about.usedBy
    const lost = await database.transaction(async (trx) => {
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
      log.error(
        { flow, destination, reason: sentenceOf(lost, 'en') },
        'OAuth access lost; authorize the application again',
      )
  }

  /** Retries until the tokens are stored. A stop of the service limits the retries. */
  const store = async (access: Access, from: GrantRow, grant: TokenGrant, askedAt: Date) => {
    const { id } = access
    const { accessToken, refreshToken, lifeSeconds } = grant
    const tokens = {
      access_token: encrypt(id, accessToken),
      // Without a new refresh token the stored one stays. A key rotation may have encrypted it again.
      ...(refreshToken !== undefined && { refresh_token: encrypt(id, refreshToken) }),
      expires_at: new Date(askedAt.getTime() + lifeSeconds * 1_000 * usedShare),
      renewed_at: now(),
    }
    let left = storeAttemptsAfterStop
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await renewGrant(db, from, tokens, useBy(access))
      } catch (error) {
        if (stopped) left -= 1
        if (left === 0) throw error
        const { usedBy } = access.about
        log.error({ ...usedBy, err: error }, 'new tokens not stored yet; the service retries')
        await deps.sleep(backoffMs(attempt, storePauses))
      }
    }
  }

  /** Undefined when the row has changed, or when another renewal may decide: the caller then reads the row again. */
  const renewFrom = async (access: Access, from: GrantRow): Promise<GrantRow | undefined> => {
    const { id, settings, about } = access
    const refresh_token = decrypt(id, from.refresh_token)
    const startedMs = performance.now()
    const renewal: GrantRenewal = { from, beganAt: now() }
    if (!(await beginGrantRenewal(db, from, renewal.beganAt))) return undefined
    if (performance.now() - startedMs > maxStartMs) {
      await endGrantRenewal(db, renewal, { isUnanswered: false })
      return undefined
    }
    const { agent } = about
    const timeoutMs = Math.min(about.timeoutMs, longestRequestMs)
    let grant: TokenGrant
    try {
      const wanted = { grant_type: 'refresh_token', refresh_token }
      grant = await requestToken(settings, wanted, { agent, timeoutMs })
    } catch (error) {
      if (error instanceof TokenError && error.code === 'invalid_grant') {
        await recordLoss(access, renewal, from, error.code)
        return undefined
      }
      await endGrantRenewal(db, renewal, { isUnanswered: !isRefreshTokenUnused(error) }).catch(
        (cause) =>
          log.warn({ ...about.usedBy, err: cause }, 'end of a failed token renewal not stored'),
      )
      throw blockedBy(error)
    }
    await store(access, from, grant, renewal.beganAt)
    return await read(access)
  }

  const mayStillArrive = ({ renewal_began_at: beganAt }: GrantRow) => {
    if (beganAt === null) return false
    // A time in the future was stored before the clock was set back.
    return Math.abs(now().getTime() - beganAt.getTime()) < lateResponseMs
  }

  const renewUnderLease = async (access: Access, version: number): Promise<GrantRow> => {
    for (let waitedMs = 0; waitedMs <= longestWaitMs && !stopped; waitedMs += waitForOtherMs) {
      const row = await read(access)
      if (row.version !== version) return row
      if (!mayStillArrive(row)) {
        const leased = await withLease(deps, `oauth-grant:${access.id}`, () =>
          renewFrom(access, row),
        )
        if (leased?.result) return leased.result
      }
      await deps.sleep(waitForOtherMs)
    }
    throw new TokenBlockedError({ code: 'TOKEN_RENEWED_ELSEWHERE' }, renewedCheckMs)
  }

  const renew = (access: Access, version: number): Promise<GrantRow> => {
    const { id } = access
    const renewal =
      renewing.get(id) ?? renewUnderLease(access, version).finally(() => renewing.delete(id))
    renewing.set(id, renewal)
    return renewal
  }

  return {
    tokens(settings, about) {
      const id = grantIdOf(settings)
      if (id === undefined) throw new Error('there is nothing to renew')
      const access = { id, settings, about }
      let known: Known | undefined
      let refusedVersion = 0
      const isUsable = ({ version, access_token: token, expires_at: end }: GrantRow) =>
        version !== refusedVersion && token !== null && end !== null && now() < end
      return {
        get: async () => {
          const ageMs = now().getTime() - (known?.seenAtMs ?? 0)
          if (known && ageMs >= 0 && ageMs < known.validMs) return known.token
          const found = await read(access)
          const row = isUsable(found) ? found : await renew(access, found.version)
          const token = decrypt(id, row.access_token ?? '')
          const seenAtMs = now().getTime()
          const validMs = Math.min((row.expires_at?.getTime() ?? 0) - seenAtMs, tokenCacheMs)
          known = { token, version: row.version, renewedAt: row.renewed_at, seenAtMs, validMs }
          return token
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
    },
    async stop() {
      stopped = true
      await Promise.allSettled(renewing.values())
    },
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
