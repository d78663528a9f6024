import { randomBytes, randomUUID } from 'node:crypto'
import type { Trx } from '../../db/database.ts'
import { asClientName } from '../../domain/client-name.ts'
import type { Person } from '../../domain/permissions.ts'
import { hashSecret } from '../../domain/secret-hash.ts'
import { type PersonRow, updatePerson } from '../../repositories/people/people-queries.ts'
import {
  deletePersonSession,
  findPersonSession,
  insertPersonSession,
  type OpenSession,
  touchPersonSession,
} from '../../repositories/people/person-sessions.ts'
import { recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'

const minuteMs = 60_000
/** A long shift. */
const sessionMs = 12 * 60 * minuteMs
/** A page that is open asks every few seconds, so this counts from when the last page was closed. */
export const idleMs = 2 * 60 * minuteMs
/** `used_at` is not written at each request. */
const touchMs = minuteMs
const maxSessions = 20

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

export type Begun = { secret: string; sessionId: string; person: Person; until: Date }

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
  const secret = randomBytes(32).toString('base64url')
  const sessionId = randomUUID()
  const until = new Date(now.getTime() + sessionMs)
  await insertPersonSession(
    trx,
    {
      id: sessionId,
      token_hash: hashSecret(secret),
      person_id: row.id,
      created_at: now,
      used_at: now,
      expires_at: until,
      ip_address: actor.ipAddress,
      user_agent: userAgent?.slice(0, 300).toWellFormed() ?? null,
    },
    maxSessions,
  )
  const person = personOf(row)
  await recordSuccess(deps, trx, {
    client: row.client,
    actor: { ...actor, person, sessionId },
    action: 'session.started',
    resourceId: sessionId,
  })
  return { secret, sessionId, person, until }
}

/** The session with this secret, if it is open and its person is not revoked. Its use is recorded once a minute. */
export async function findSession(
  deps: Pick<PaymentDeps, 'database' | 'now'>,
  secret: string,
): Promise<OpenSession | undefined> {
  const { db } = deps.database
  const now = deps.now()
  const found = await findPersonSession(db, hashSecret(secret), {
    now,
    idleSince: new Date(now.getTime() - idleMs),
  })
  if (found && now.getTime() - found.usedAt.getTime() >= touchMs) {
    await touchPersonSession(db, found.id, now)
  }
  return found
}

/** Ends the session with this secret, if there is one. */
export async function endSession(deps: PaymentDeps, secret: string, actor: Actor): Promise<void> {
  const found = await findSession(deps, secret)
  if (!found) return
  const { id, person } = found
  await deps.database.transaction(async (trx) => {
    if (!(await deletePersonSession(trx, { id, personId: person.id }))) return
    await recordSuccess(deps, trx, {
      client: person.client,
      actor: { ...actor, person, sessionId: id },
      action: 'session.ended',
      resourceId: id,
    })
  })
}

export function personOf({ id, name, role, client, stores }: PersonRow): Person {
  return { id, name, role, client: client && asClientName(client), stores }
}
