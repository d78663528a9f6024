import type { Trx } from '../../db/database.ts'
import { asClientName, type ClientName } from '../../domain/client-name.ts'
import { connectionContext, DecryptionError } from '../../domain/encryption.ts'
import { codeChallenge, randomToken } from '../../domain/pkce.ts'
import { hashSecret, sameSecret } from '../../domain/secret-hash.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { asAppError } from '../../provider/provider.ts'
import {
  countApiKeys,
  revokeKeysOfOtherAccounts,
} from '../../repositories/api-keys/api-key-queries.ts'
import { keepSite } from '../../repositories/closings/closing-queries.ts'
import {
  findClient,
  insertClientIfAbsent,
  lockClient,
  setNickname,
  setPinnedAccount,
} from '../../repositories/connection/clients.ts'
import { insertConnectionEvent } from '../../repositories/connection/connection-events.ts'
import {
  consumeState,
  deleteExpiredStates,
  findConnection,
  findState,
  insertState,
  upsertConnection,
} from '../../repositories/connection/connection-queries.ts'
import { useConnectInvitation } from '../../repositories/connection/invitation-queries.ts'
import { type ActivityEntry, auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { refuseConnected } from './connected-account.ts'
import { readInvitation } from './invitations.ts'
import { encryptGrant } from './oauth-tokens.ts'

const stateLifeMs = 10 * 60_000

type LoginRequest = {
  client: string
  targetUrl?: string | undefined
  invitation?: string | undefined
  isAdmin: boolean
}

/**
 * Starts a connection: stores state and PKCE verifier. Returns the URL for the browser, and the value that binds the state to
 * this browser.
 *
 * @throws OAUTH_ALREADY_CONNECTED, API_KEY_REQUIRED, FORBIDDEN, INVITATION_INVALID, VALIDATION_ERROR
 */
export async function startLogin(
  deps: PaymentDeps,
  request: LoginRequest,
): Promise<{ redirectTo: string; browserToken: string }> {
  const { db } = deps.database
  const targetUrl = request.targetUrl === undefined ? null : allowedTarget(deps, request.targetUrl)
  const client = asClientName(request.client)
  const now = deps.now()

  await refuseConnected(deps, client)
  const mayChooseAccount = await checkEnrolment(deps, request, now)

  const state = randomToken()
  const verifier = randomToken()
  const browserToken = randomToken()
  await deleteExpiredStates(db, now)
  await insertState(db, {
    state_hash: hashSecret(state),
    client,
    code_verifier: deps.encryption.encrypt(verifier, connectionContext(client, 'code_verifier')),
    target_url: targetUrl,
    browser_hash: hashSecret(browserToken),
    may_choose_account: mayChooseAccount,
    created_at: now,
    expires_at: new Date(now.getTime() + stateLifeMs),
  })
  const redirectTo = deps.provider.oauth.authorizationUrl({
    state,
    codeChallenge: codeChallenge(verifier),
    redirectUri: redirectUri(deps),
  })
  return { redirectTo, browserToken }
}

/**
 * Allows a login to start, and returns whether it may choose the client's account. Only the administrator can permit that, by an
 * own request or an invitation. Any other caller gets at most what is harmless: the pinned account or, where enrolment is open, a
 * name that was never connected.
 */
async function checkEnrolment(
  deps: PaymentDeps,
  request: LoginRequest,
  now: Date,
): Promise<boolean> {
  const { db } = deps.database
  const known = await findClient(db, request.client)
  const isPinned = known !== undefined && known.mp_user_id !== null
  const keys = await countApiKeys(db, request.client)
  if (isPinned && keys.total > 0) {
    if (keys.active === 0) throw new AppError('API_KEY_REQUIRED')
    return request.isAdmin
  }
  if (request.invitation !== undefined) {
    const id = readInvitation(deps, request.invitation, request.client)
    const used = id !== undefined && (await useConnectInvitation(db, id, request.client, now))
    if (!used) throw new AppError('INVITATION_INVALID')
    return true
  }
  if (request.isAdmin) return true
  if (keys.total > 0 && keys.active === 0) throw new AppError('API_KEY_REQUIRED')
  if (deps.settings.enrolment === 'invite' || (known && !isPinned)) throw needsInvitation()
  return false
}

function needsInvitation(): AppError {
  return new AppError('FORBIDDEN', {
    message: 'This connection needs an invitation link from the administrator',
  })
}

/** The registered redirect address: always from PUBLIC_URL, never from the request's Host. */
function redirectUri(deps: PaymentDeps): string {
  return `${deps.settings.publicUrl}/oauth/callback`
}

/**
 * Refuses addresses that would make this service an open redirect. Allowed are our own origin, loopback and the listed origins,
 * compared as parsed origins and never as text.
 */
function allowedTarget(deps: PaymentDeps, text: string): string {
  const refused = () => invalid('target_url', { code: 'TARGET_NOT_ALLOWED' })
  // The URL parser drops tabs and line breaks and reads a backslash as a slash: a legitimate address has none of them.
  if (/[\s\\]/.test(text) || !URL.canParse(text)) throw refused()
  const url = new URL(text)
  if (url.username !== '' || url.password !== '') throw refused()
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused()
  const isLoopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(url.hostname)
  const isOurs = url.origin === new URL(deps.settings.publicUrl).origin
  if (!isLoopback && !isOurs && !deps.settings.oauthTargetOrigins.includes(url.origin)) {
    throw refused()
  }
  return url.href
}

type CallbackRequest = {
  code: string | undefined
  state: string | undefined
  denied: boolean
  /** The issuer that the redirect names; undefined when it names none. */
  issuer: string | undefined
  /** The browser's copy of the binding value, if it sent one. */
  browserToken: string | undefined
}

/**
 * Completes a connection: exchanges the code, checks the account against the pinned one, and stores the tokens encrypted. Keys
 * that were made for another account are revoked.
 *
 * @throws OAUTH_STATE_INVALID, OAUTH_DENIED, ACCOUNT_MISMATCH, FORBIDDEN, or the provider's failure
 */
export async function finishLogin(
  deps: PaymentDeps,
  request: CallbackRequest,
  actor: Actor,
): Promise<{ client: ClientName; targetUrl: string | null }> {
  const { database } = deps
  const stateHash = request.state === undefined ? undefined : hashSecret(request.state)
  const waiting = stateHash === undefined ? undefined : await findState(database.db, stateHash)
  if (stateHash === undefined || !waiting || waiting.expires_at <= deps.now()) {
    throw new AppError('OAUTH_STATE_INVALID')
  }
  // Over plain http no browser stores the cookie (browser-cookie.ts), so only the state protects.
  const isBound = deps.settings.publicUrl.startsWith('https:') || request.browserToken !== undefined
  const mark = hashSecret(request.browserToken ?? '')
  if (isBound && !sameSecret(mark, waiting.browser_hash ?? '')) {
    throw new AppError('OAUTH_STATE_INVALID')
  }
  // The code of another server must not be sent to ours, and our server's code is the only one accepted (RFC 9207).
  if (request.issuer !== undefined && !deps.provider.oauth.isIssuer(request.issuer)) {
    deps.log.warn({ client: waiting.client }, 'login answer came from another authorization server')
    throw new AppError('OAUTH_STATE_INVALID')
  }
  if (!request.denied && request.code === undefined) throw invalid('code', { code: 'REQUIRED' })
  const state = await consumeState(database.db, stateHash)
  if (!state) throw new AppError('OAUTH_STATE_INVALID')
  if (request.denied || request.code === undefined) throw new AppError('OAUTH_DENIED')

  const client = asClientName(state.client)
  const codeVerifier = openVerifier(deps, state)
  const entry = {
    client: state.client,
    actor,
    action: 'oauth.connected',
    resourceId: state.client,
  }
  const proof = { code: request.code, codeVerifier }
  const mayChoose = state.may_choose_account
  await auditFailure(deps, entry, () => connect(deps, client, proof, { mayChoose, entry }))
  return { client, targetUrl: state.target_url }
}

/** @throws OAUTH_STATE_INVALID when another process encrypted it with a key that this one does not have */
function openVerifier(
  deps: PaymentDeps,
  { client, code_verifier }: { client: string; code_verifier: string },
): string {
  try {
    return deps.encryption.decrypt(code_verifier, connectionContext(client, 'code_verifier'))
  } catch (error) {
    if (!(error instanceof DecryptionError)) throw error
    deps.log.error(
      { client, keyId: error.keyId, err: error },
      'login not completed: this process lacks the encryption key of another process (ENCRYPTION_KEYS)',
    )
    throw new AppError('OAUTH_STATE_INVALID', { cause: error })
  }
}

async function connect(
  deps: PaymentDeps,
  client: ClientName,
  proof: { code: string; codeVerifier: string },
  { mayChoose, entry }: { mayChoose: boolean; entry: ActivityEntry },
): Promise<void> {
  try {
    const grant = await deps.provider.oauth.exchangeCode({
      ...proof,
      redirectUri: redirectUri(deps),
    })
    const mpUserId = grant.mpUserId ?? (await deps.provider.users.me(grant.accessToken)).id
    await deps.database.transaction(async (trx) => {
      const now = deps.now()
      const isNew = await insertClientIfAbsent(trx, client, now)
      const row = await lockClient(trx, client)
      const pinned = row?.mp_user_id ?? null
      if (pinned !== null && pinned !== mpUserId) throw new AppError('ACCOUNT_MISMATCH')
      if (pinned === null) {
        // Checked again: the account may have been unpinned since the login started.
        const isOpen = isNew && deps.settings.enrolment === 'open'
        if (!mayChoose && !isOpen) throw needsInvitation()
        await setPinnedAccount(trx, client, { mpUserId, nickname: row?.mp_nickname ?? null })
        await endForeignKeys(deps, trx, client, mpUserId, entry.actor)
      }
      const tokens = encryptGrant(deps, client, grant)
      // The client's row is locked, so no other login changes the connection meanwhile.
      const before = await findConnection(trx, client)
      await upsertConnection(trx, {
        client,
        mp_user_id: mpUserId,
        ...tokens,
        scope: grant.scope,
        // Equal to it until these tokens are renewed.
        connected_at: tokens.refreshed_at,
        refresh_started_at: null,
        status: 'connected',
        lost_reason: null,
      })
      if (before?.status === 'lost') {
        await insertConnectionEvent(trx, client, 'connected', { at: now })
      }
      await recordSuccess(deps, trx, { ...entry, metadata: { mp_user_id: mpUserId } })
    })
    await nameAccount(deps, client, grant.accessToken)
  } catch (error) {
    throw asAppError(error, 'oauth.exchange')
  }
}

/** A key made for one account never charges for another: its user must get a new one. */
async function endForeignKeys(
  deps: PaymentDeps,
  trx: Trx,
  client: ClientName,
  mpUserId: number,
  actor: Actor,
): Promise<void> {
  const revoked = await revokeKeysOfOtherAccounts(trx, client, mpUserId, deps.now())
  if (revoked === 0) return
  await recordSuccess(deps, trx, {
    client,
    actor,
    action: 'api_key.revoked',
    resourceId: client,
    metadata: { revoked, reason: 'account_changed', mp_user_id: mpUserId },
  })
}

/** Reads the account's nickname and country, which only make the pages easier to read: if it fails, the login still succeeds. */
async function nameAccount(deps: PaymentDeps, client: ClientName, token: string): Promise<void> {
  try {
    const { id, nickname, siteId } = await deps.provider.users.me(token)
    const { db } = deps.database
    if (nickname !== null) await setNickname(db, client, { mpUserId: id, nickname })
    if (siteId !== null) await keepSite(db, { mpUserId: id, siteId, at: deps.now() })
  } catch (error) {
    deps.log.warn({ client, err: error }, 'name of the connected account not read')
  }
}
