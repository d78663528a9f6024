import type { Database } from '../../db/database.ts'
import { sentenceOf } from '../../domain/flow-reasons.ts'
import { SealedError, type Sealer } from '../../domain/sealed.ts'
import { sameSecret } from '../../domain/secrets.ts'
import { withLease } from '../../jobs/with-lease.ts'
import { RequestFailure } from '../../outbound/guarded-request.ts'
import { grantContext } from '../../repositories/encryption/sealed-values.ts'
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
import { grantIdOf, lostGrantReason } from './lost-grant.ts'
import { requestToken, TokenError, type TokenGrant } from './token-request.ts'
import {
  type OAuthSettings,
  TokenBlockedError,
  type Tokens,
  type TokenUse,
  usedShare,
} from './tokens.ts'

export type GrantKeeperDeps = {
  database: Database
  sealer: Pick<Sealer, 'seal' | 'open'>
  now: () => Date
  sleep: (ms: number) => Promise<void>
  /** Names this process as the owner of leases. */
  processId: string
  log: {
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
}

export type GrantKeeper = {
  /** The access tokens of a source or destination whose `grant` is `refresh_token`. */
  tokens(settings: OAuthSettings, about: TokenUse): Tokens
  /** Waits for renewals under way: what they bring exists nowhere else. */
  stop(): Promise<void>
}

type Known = {
  token: string
  version: number
  renewedAt: Date | null
  seenAtMs: number
  lastsMs: number
}
type Access = { id: string; settings: OAuthSettings; about: TokenUse }

/** So long a token is used without a look whether another process has renewed it. */
const unseenMs = 60_000
/** A token refused so soon after its renewal is not the trouble: a receiver that answers 401 to all must not use up renewals. */
const renewalRestMs = 60_000
const longestRequestMs = 10_000
const waitForOtherMs = 200
const longestWaitMs = 5_000
/** A process that began a renewal may bring its tokens this long after, although its lease has ended: it stood still. */
const mayStillComeMs = 30_000
/** A turn that was taken longer ago than this, by a process that stood still, may be another one's by now. */
const turnMs = 5_000
const whileRenewedMs = 2_000
const whileLostMs = 30_000
const usedAgainMs = 24 * 3_600_000
const storeAgainMs = 100
const longestStoreAgainMs = 2_000
const storesAfterStop = 5

/**
 * Keeps the newest refresh token of each access, sealed in the database, and renews it once for all destinations and
 * processes that were given the same first one. Nobody uses what a renewal brought before it is stored: the token before it
 * works no more, so a copy in a process that dies would be the last one. An access that the issuer refuses to renew is not
 * asked for again.
 */
export function createGrantKeeper(deps: GrantKeeperDeps): GrantKeeper {
  const { database, sealer, now, log } = deps
  const { db } = database
  const renewing = new Map<string, Promise<GrantRow>>()
  let stopped = false

  const seal = (id: string, text: string) => sealer.seal(text, grantContext(id))
  const open = (id: string, sealed: string) => {
    try {
      return sealer.open(sealed, grantContext(id))
    } catch (error) {
      if (!(error instanceof SealedError)) throw error
      throw new TokenBlockedError(
        { code: 'TOKEN_SEALED', data: { key: String(error.keyId) } },
        whileLostMs,
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
    const row = await findOrBeginGrant(db, { id, refresh_token: seal(id, first), ...use })
    if (row.lost_at) throw new TokenBlockedError(lostGrantReason(row, settings), whileLostMs)
    if (now().getTime() - row.used_at.getTime() > usedAgainMs) await useGrant(db, id, use)
    return row
  }

  const lose = async (access: Access, renewal: GrantRenewal, from: GrantRow, reason: string) => {
    const at = now()
    const { flow, destination } = access.about.usedBy
    const lost = await database.transaction(async (trx) => {
      if (!(await loseGrant(trx, renewal, { reason, at }))) return undefined
      // As the renewal found it, and what it noted of one before.
      const unheard = from.unheard_since ?? from.renewal_began_at
      const why = lostGrantReason(
        { ...from, lost_reason: reason, unheard_since: unheard },
        access.settings,
      )
      await insertFlowErrors(trx, [{ flow, adapter: destination, pk: '', why, at }])
      return why
    })
    if (lost) log.error({ flow, destination, reason: sentenceOf(lost, 'en') }, 'an access is lost')
  }

  /** For as long as this process lives, or until a stop has waited for it. */
  const store = async (access: Access, from: GrantRow, grant: TokenGrant, askedAt: Date) => {
    const { id } = access
    const { accessToken, refreshToken, lifeSeconds } = grant
    const tokens = {
      access_token: seal(id, accessToken),
      // Without another one what stands there stays, which an exchange of keys may have sealed anew.
      ...(refreshToken !== undefined && { refresh_token: seal(id, refreshToken) }),
      expires_at: new Date(askedAt.getTime() + lifeSeconds * 1_000 * usedShare),
      renewed_at: now(),
    }
    let waitMs = storeAgainMs
    for (let left = storesAfterStop; ; waitMs = Math.min(2 * waitMs, longestStoreAgainMs)) {
      try {
        return await renewGrant(db, from, tokens, useBy(access))
      } catch (error) {
        if (stopped) left -= 1
        if (left === 0) throw error
        const { usedBy } = access.about
        log.error({ ...usedBy, err: error }, 'new tokens are not stored yet; this is tried again')
        await deps.sleep(waitMs)
      }
    }
  }

  /** Undefined when the row has changed meanwhile, or another renewal may decide about it: look again then. */
  const renewFrom = async (access: Access, from: GrantRow): Promise<GrantRow | undefined> => {
    const { id, settings, about } = access
    const refresh_token = open(id, from.refresh_token)
    const askedMs = performance.now()
    const renewal: GrantRenewal = { from, beganAt: now() }
    if (!(await beginGrantRenewal(db, from, renewal.beganAt))) return undefined
    if (performance.now() - askedMs > turnMs) {
      await endGrantRenewal(db, renewal, { isUnheard: false })
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
        await lose(access, renewal, from, error.code)
        return undefined
      }
      await endGrantRenewal(db, renewal, { isUnheard: !provesNothingDone(error) }).catch((cause) =>
        log.warn(
          { ...about.usedBy, err: cause },
          'a renewal that failed could not be noted as over',
        ),
      )
      throw blockedBy(error)
    }
    await store(access, from, grant, renewal.beganAt)
    return await read(access)
  }

  const mayStillCome = ({ renewal_began_at: beganAt }: GrantRow) => {
    if (beganAt === null) return false
    // One of the future was written before the clock was set back.
    return Math.abs(now().getTime() - beganAt.getTime()) < mayStillComeMs
  }

  const renewInTurn = async (access: Access, version: number): Promise<GrantRow> => {
    for (let waitedMs = 0; waitedMs <= longestWaitMs && !stopped; waitedMs += waitForOtherMs) {
      const row = await read(access)
      if (row.version !== version) return row
      if (!mayStillCome(row)) {
        const turn = await withLease(deps, `oauth-grant:${access.id}`, () => renewFrom(access, row))
        if (turn?.result) return turn.result
      }
      await deps.sleep(waitForOtherMs)
    }
    throw new TokenBlockedError({ code: 'TOKEN_RENEWED_ELSEWHERE' }, whileRenewedMs)
  }

  const renew = (access: Access, version: number): Promise<GrantRow> => {
    const { id } = access
    const turn = renewing.get(id) ?? renewInTurn(access, version).finally(() => renewing.delete(id))
    renewing.set(id, turn)
    return turn
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
          if (known && ageMs >= 0 && ageMs < known.lastsMs) return known.token
          const found = await read(access)
          const row = isUsable(found) ? found : await renew(access, found.version)
          const token = open(id, row.access_token ?? '')
          const seenAtMs = now().getTime()
          const lastsMs = Math.min((row.expires_at?.getTime() ?? 0) - seenAtMs, unseenMs)
          known = { token, version: row.version, renewedAt: row.renewed_at, seenAtMs, lastsMs }
          return token
        },
        refused: (token) => {
          if (!known || !sameSecret(known.token, token)) return
          const ageMs = now().getTime() - (known.renewedAt?.getTime() ?? 0)
          if (ageMs < 0 || ageMs >= renewalRestMs) refusedVersion = known.version
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

/** Whether a failure shows that the refresh token was not used up: an answer that says no, or no connection at all. */
function provesNothingDone(error: unknown): boolean {
  if (error instanceof TokenError) return error.status !== undefined && error.status < 500
  if (!(error instanceof RequestFailure)) return false
  const { kind, code } = error
  return kind === 'refused_address' || ['ECONNREFUSED', 'ENOTFOUND'].includes(code ?? '')
}

/** A refusal that is not about the refresh token is about what the flow file says: no attempt changes that. */
function blockedBy(error: unknown): unknown {
  if (!(error instanceof TokenError) || error.isOutage) return error
  return new TokenBlockedError({ ...error.why, code: 'TOKEN_REFUSED' }, whileLostMs)
}
