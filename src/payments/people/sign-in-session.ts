import { randomBytes, randomUUID } from 'node:crypto'
import type { Trx } from '../../db/database.ts'
import { asClientName, type ClientName } from '../../domain/client-name.ts'
import type { Person } from '../../domain/permissions.ts'
import { hashSecret, sameSecret } from '../../domain/secret-hash.ts'
import { type PersonRow, updatePerson } from '../../repositories/people/people-queries.ts'
import {
  deleteSession,
  findOpenSession,
  insertSession,
  type OpenSession,
  touchSession,
} from '../../repositories/session/sessions.ts'
import { recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'

const minuteMs = 60_000
/** A long shift. The end is fixed at sign-in, so that a session on a shared machine expires by itself. */
export const sessionMs = 12 * 60 * minuteMs
/** Of a person. A page that is open asks every few seconds, so this counts from when the last page was closed. */
export const idleMs = 2 * 60 * minuteMs
/** `used_at` is not written at each request. */
const touchMs = minuteMs
const sessionsOfPerson = 20
/** Of one key, or of the administrator: repeated sign-ins must not fill the database. */
const sessionsOfToken = 100

/**
 * Where a sign-in comes from. `group`: what counts as one address. `device`: the id of a browser in which this person has signed in
 * before.
 */
export type From = {
  actor: Actor
  group: string
  userAgent: string | undefined
  device?: string | undefined
}

type NewSession = { secret: string; sessionId: string; until: Date }
export type Begun = NewSession & { person: Person }

/**
 * Writes a new session of the person and its entry of the audit log. Undefined when the person was revoked meanwhile, or password
 * or codes are no longer those of `row`, against which the sign-in was checked.
 */
export async function beginSession(
  deps: PaymentDeps,
  trx: Trx,
  row: PersonRow,
  { actor, userAgent }: From,
): Promise<Begun | undefined> {
  const now = deps.now()
  const { password_hash, totp_on } = row
  const isCurrent = await updatePerson(
    trx,
    row.id,
    { signed_in_at: now },
    { password_hash, totp_on },
  )
  if (!isCurrent) return undefined
  const session = await insert(deps, trx, { person_id: row.id }, { actor, userAgent })
  const person = personOf(row)
  await recordSuccess(deps, trx, {
    client: row.client,
    actor: { ...actor, person, sessionId: session.sessionId },
    action: 'session.started',
    resourceId: session.sessionId,
  })
  return { ...session, person }
}

/** Whose token signs in: that of a key, or ADMIN_TOKEN. */
type TokenOwner = { key: { id: string; client: ClientName } } | { adminToken: string }

/** Writes a new session of a token and its entry of the audit log. */
export async function beginTokenSession(
  deps: PaymentDeps,
  owner: TokenOwner,
  from: Pick<From, 'actor' | 'userAgent'>,
): Promise<NewSession> {
  const key = 'key' in owner ? owner.key : undefined
  return deps.database.transaction(async (trx) => {
    const session = await insert(deps, trx, owner, from)
    await recordSuccess(deps, trx, {
      client: key?.client ?? null,
      actor: { ...from.actor, keyId: key?.id, sessionId: session.sessionId },
      action: 'session.started',
      resourceId: session.sessionId,
    })
    return session
  })
}

async function insert(
  deps: PaymentDeps,
  trx: Trx,
  owner: { person_id: string } | TokenOwner,
  { actor, userAgent }: Pick<From, 'actor' | 'userAgent'>,
): Promise<NewSession> {
  const now = deps.now()
  const secret = randomBytes(32).toString('base64url')
  const sessionId = randomUUID()
  const until = new Date(now.getTime() + sessionMs)
  const isOfPerson = 'person_id' in owner
  await insertSession(
    trx,
    {
      id: sessionId,
      token_hash: hashSecret(secret),
      person_id: isOfPerson ? owner.person_id : null,
      key_id: 'key' in owner ? owner.key.id : null,
      admin_proof: 'adminToken' in owner ? adminProof(secret, owner.adminToken) : null,
      created_at: now,
      used_at: now,
      expires_at: until,
      ip_address: actor.ipAddress,
      user_agent: userAgent?.slice(0, 300).toWellFormed() ?? null,
    },
    isOfPerson ? sessionsOfPerson : sessionsOfToken,
  )
  return { secret, sessionId, until }
}

/** Binds a session of the administrator to the token that signed in. The secret keeps the token from being guessed by the hash. */
function adminProof(secret: string, adminToken: string): string {
  return hashSecret(`${secret} ${adminToken}`)
}

/** Whether the session was begun with this admin token. */
export function isOfAdmin(
  { adminProof: proof }: OpenSession,
  secret: string,
  adminToken: string,
): boolean {
  return proof !== null && sameSecret(proof, adminProof(secret, adminToken))
}

/** The session with this secret, if it is open and its person or key is not revoked. Its use is recorded once a minute. */
export async function findSession(
  deps: Pick<PaymentDeps, 'database' | 'now'>,
  secret: string,
): Promise<OpenSession | undefined> {
  const { db } = deps.database
  const now = deps.now()
  const found = await findOpenSession(db, hashSecret(secret), {
    now,
    idleSince: new Date(now.getTime() - idleMs),
  })
  if (found && now.getTime() - found.usedAt.getTime() >= touchMs) {
    await touchSession(db, found.id, now)
  }
  return found
}

/** Ends the session with this secret, if there is one, whosever it is. */
export async function endSession(deps: PaymentDeps, secret: string, actor: Actor): Promise<void> {
  const found = await findSession(deps, secret)
  if (!found) return
  const { id, person, key } = found
  await deps.database.transaction(async (trx) => {
    if (!(await deleteSession(trx, id))) return
    await recordSuccess(deps, trx, {
      client: person?.client ?? key?.client ?? null,
      actor: { ...actor, person: person ?? undefined, keyId: key?.id, sessionId: id },
      action: 'session.ended',
      resourceId: id,
    })
  })
}

function personOf({ id, name, role, client, stores }: PersonRow): Person {
  return { id, name, role, client: client && asClientName(client), stores }
}
