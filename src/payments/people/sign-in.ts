import { randomBytes, randomUUID } from 'node:crypto'
import type { Trx } from '../../db/database.ts'
import { asClientName } from '../../domain/client-name.ts'
import { nameKey, type Person } from '../../domain/people.ts'
import { SealedError } from '../../domain/sealed.ts'
import { hashSecret } from '../../domain/secrets.ts'
import { AppError } from '../../errors/app-error.ts'
import { totpContext } from '../../repositories/encryption/sealed-values.ts'
import {
  findPersonByName,
  type PersonRow,
  takeTotpStep,
  updatePerson,
} from '../../repositories/people/people-queries.ts'
import {
  countSignInTry,
  deletePersonSession,
  findPersonSession,
  forgiveSignInTries,
  insertPersonSession,
  type OpenSession,
  touchPersonSession,
} from '../../repositories/people/person-sessions.ts'
import { recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { stepOfCode } from './totp.ts'

const minuteMs = 60_000
/** A long shift. */
const sessionMs = 12 * 60 * minuteMs
/** A page that is open asks every few seconds, so this counts from when the last page was closed. */
export const idleMs = 2 * 60 * minuteMs
/** `used_at` is not written at each request. */
const touchMs = minuteMs
const maxSessions = 20

/** So many wrong passwords or codes of one name, or from one address, in the time below; the next ones are not checked. */
export const triesOfName = 5
export const triesOfAddress = 50
export const lockMs = 15 * minuteMs

/** Where a sign-in comes from. `group`: what counts as one address. */
export type From = { actor: Actor; group: string; userAgent: string | undefined }

export type Credentials = { name: string; password: string; code?: string | undefined }

export type Begun = { secret: string; sessionId: string; person: Person; until: Date }

/**
 * A new session for the person of this name. Undefined when the name, the password or the code is wrong, which are not distinguished:
 * neither by the answer nor by how long it takes. `refuse` records the try.
 *
 * @throws RATE_LIMITED after too many wrong tries, whether or not the name exists
 */
export async function signInPerson(
  deps: PaymentDeps,
  { name, password, code }: Credentials,
  from: From,
  refuse: (actor: Actor) => Promise<void>,
): Promise<Begun | undefined> {
  const { db } = deps.database
  const now = deps.now()
  const subjects = { name: subjectOfName(name), address: `address ${from.group}` }
  // The address first: one that is locked out must not lock names.
  await countTry(deps, subjects.address, triesOfAddress)
  await countTry(deps, subjects.name, triesOfName)
  const row = await findPersonByName(db, nameKey(name))
  const isKnown = await deps.passwords.matches(
    password,
    row?.revoked_at === null ? row.password_hash : null,
  )
  if (!row || !isKnown || !(await isCodeRight(deps, row, code, now))) {
    await refuse(row ? { ...from.actor, person: { id: row.id, name: row.name } } : from.actor)
    return undefined
  }
  return deps.database.transaction(async (trx) => {
    await forgiveSignInTries(trx, subjects)
    return beginSession(deps, trx, row, from)
  })
}

/** What wrong tries of a name are counted under, whether or not it exists. */
export function subjectOfName(name: string): string {
  return `name ${hashSecret(nameKey(name))}`
}

/**
 * Counts a try of a name or an address, before its password is checked.
 *
 * @throws RATE_LIMITED when it has had as many as it may
 */
export async function countTry(
  deps: Pick<PaymentDeps, 'database' | 'now'>,
  subject: string,
  most: number,
): Promise<void> {
  const now = deps.now()
  const until = new Date(now.getTime() + lockMs)
  const counted = await countSignInTry(deps.database.db, subject, { now, until })
  if (counted.failures <= most) return
  const leftMs = counted.until.getTime() - now.getTime()
  throw new AppError('RATE_LIMITED', {
    message: 'Too many wrong tries; wait as Retry-After says',
    extra: { retryAfterSeconds: Math.max(1, Math.ceil(leftMs / 1000)) },
  })
}

async function isCodeRight(
  deps: PaymentDeps,
  row: PersonRow,
  code: string | undefined,
  now: Date,
): Promise<boolean> {
  if (!row.totp_on) return true
  const secret = openTotp(deps, row)
  const step = secret && code !== undefined ? stepOfCode(secret, code, now) : undefined
  return step !== undefined && (await takeTotpStep(deps.database.db, row.id, step))
}

/** The secret of the person's codes; undefined without one, and when its encryption key is lost: an administrator resets it then. */
export function openTotp(
  { sealer }: Pick<PaymentDeps, 'sealer'>,
  { name_key: key, totp_secret: sealed }: PersonRow,
): string | undefined {
  if (sealed === null) return undefined
  try {
    return sealer.open(sealed, totpContext(key))
  } catch (error) {
    if (error instanceof SealedError) return undefined
    throw error
  }
}

/** Writes a new session of the person and its entry of the audit log. */
export async function beginSession(
  deps: PaymentDeps,
  trx: Trx,
  row: PersonRow,
  { actor, userAgent }: From,
): Promise<Begun | undefined> {
  const now = deps.now()
  // A person who was revoked meanwhile begins none.
  if (!(await updatePerson(trx, row.id, { signed_in_at: now }))) return undefined
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
