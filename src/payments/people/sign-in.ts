import { DecryptionError, totpContext } from '../../domain/encryption.ts'
import { nameKey } from '../../domain/permissions.ts'
import { hashSecret } from '../../domain/secret-hash.ts'
import { AppError } from '../../errors/app-error.ts'
import {
  findPersonByName,
  type PersonRow,
  takeTotpStep,
} from '../../repositories/people/people-queries.ts'
import { countSignInTry, forgiveSignInTries } from '../../repositories/people/sign-in-tries.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { type Begun, beginSession, type From } from './sign-in-session.ts'
import { stepOfCode } from './totp.ts'

const minuteMs = 60_000
/**
 * So many wrong passwords or codes of one name from one place, of one name from all unknown places, and from one address, in the time
 * below; the next ones are not checked. A place is a browser in which the person has signed in before, an open session, or else an
 * address: so tries elsewhere lock out no one who is known.
 */
const triesOfPlace = 5
export const triesOfName = 50
export const triesOfAddress = 50
const lockMs = 15 * minuteMs

export type Credentials = { name: string; password: string; code?: string | undefined }

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
  const counted = countedFor(name, from)
  for (const { subject, most } of counted) await countTry(deps, subject, most)
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
    await forgiveSignInTries(trx, counted)
    return beginSession(deps, trx, row, from)
  })
}

/** What a try is counted under, whether or not the name exists. A sign-in ends the count of its place. */
type CountedTry = { subject: string; most: number; isPlace?: true }

function countedFor(name: string, { device, group }: From): CountedTry[] {
  const hash = hashSecret(nameKey(name))
  if (device !== undefined) return [place(`device ${device} ${hash}`)]
  return [
    // The address first, the name last: a place that is locked out must not lock names.
    { subject: `address ${group}`, most: triesOfAddress },
    place(`address ${group} ${hash}`),
    { subject: `name ${hash}`, most: triesOfName },
  ]
}

function place(subject: string): CountedTry {
  return { subject, most: triesOfPlace, isPlace: true }
}

/** What wrong passwords of an open session are counted under. */
export function countedForSession(sessionId: string): CountedTry {
  return place(`session ${sessionId}`)
}

/**
 * Counts a try before its password is checked.
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
  { encryption }: Pick<PaymentDeps, 'encryption'>,
  { name_key: key, totp_secret: encrypted }: PersonRow,
): string | undefined {
  if (encrypted === null) return undefined
  try {
    return encryption.decrypt(encrypted, totpContext(key))
  } catch (error) {
    if (error instanceof DecryptionError) return undefined
    throw error
  }
}
