import type { Trx } from '../../db/database.ts'
import { totpContext } from '../../domain/encryption.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import {
  type PersonRow,
  takeTotpStep,
  updatePerson,
} from '../../repositories/people/people-queries.ts'
import { forgiveSignInTries } from '../../repositories/people/sign-in-tries.ts'
import { deletePersonSession, deletePersonSessions } from '../../repositories/session/sessions.ts'
import { recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { requirePerson } from './manage-people.ts'
import { countedForSession, countTry, openTotp } from './sign-in.ts'
import { newTotpSecret, stepOfCode, totpAddress } from './totp.ts'

/** A signed-in person who changes what is his own. */
export type Owner = { personId: string; sessionId: string; actor: Actor }

/**
 * Sets another password and ends the other sessions of the person.
 *
 * @throws VALIDATION_ERROR when the present password is wrong
 */
export async function changePassword(
  deps: PaymentDeps,
  owner: Owner,
  { current, password }: { current: string; password: string },
): Promise<void> {
  const row = await confirmed(deps, owner, current)
  const passwordHash = await deps.passwords.hash(password)
  await deps.database.transaction(async (trx) => {
    if (!(await updatePerson(trx, row.id, { password_hash: passwordHash }, passwordOf(row)))) {
      throw wrongPassword()
    }
    await deletePersonSessions(trx, row.id, owner.sessionId)
    await record(deps, trx, owner, row, 'person.password_changed')
  })
}

/**
 * A new secret for an authenticator app. Codes are not asked for until one of it is confirmed.
 *
 * @throws CONFLICT when codes are asked for already
 */
export async function beginTotp(
  deps: PaymentDeps,
  { personId }: Owner,
): Promise<{ secret: string; uri: string; qr: { size: number; path: string } }> {
  const row = await requirePerson(deps, undefined, personId)
  const secret = newTotpSecret()
  const fields = { totp_secret: deps.encryption.encrypt(secret, totpContext(row.name_key)) }
  const checked = { ...passwordOf(row), totp_on: false }
  const isNew = await deps.database.transaction((trx) =>
    updatePerson(trx, personId, fields, checked),
  )
  if (!isNew) throw new AppError('CONFLICT', { message: 'Codes are already required' })
  return { secret, ...totpAddress(secret, row.name) }
}

/**
 * From now on a sign-in needs a code. `code` shows that the app has the secret, and is not accepted again.
 *
 * @throws VALIDATION_ERROR for a wrong code, CONFLICT without a new secret
 */
export async function confirmTotp(deps: PaymentDeps, owner: Owner, code: string): Promise<void> {
  const row = await requirePerson(deps, undefined, owner.personId)
  const secret = openTotp(deps, row)
  if (row.totp_on || secret === undefined) throw noNewSecret()
  const step = stepOfCode(secret, code, deps.now())
  if (step === undefined) throw invalid('code', { code: 'CODE_WRONG' })
  await deps.database.transaction(async (trx) => {
    await takeTotpStep(trx, row.id, step)
    const { totp_secret, totp_on } = row
    if (!(await updatePerson(trx, row.id, { totp_on: true }, { totp_secret, totp_on }))) {
      throw noNewSecret()
    }
    await record(deps, trx, owner, row, 'person.totp_on')
  })
}

/** Codes are not asked for any more. Throws VALIDATION_ERROR when the password is wrong. */
export async function removeTotp(deps: PaymentDeps, owner: Owner, password: string): Promise<void> {
  const row = await confirmed(deps, owner, password)
  await deps.database.transaction(async (trx) => {
    const fields = { totp_on: false, totp_secret: null }
    if (!(await updatePerson(trx, row.id, fields, passwordOf(row)))) throw wrongPassword()
    await record(deps, trx, owner, row, 'person.totp_off')
  })
}

/** Ends one of the person's own sessions. Throws NOT_FOUND. */
export async function endOwnSession(deps: PaymentDeps, owner: Owner, id: string): Promise<void> {
  const row = await requirePerson(deps, undefined, owner.personId)
  await deps.database.transaction(async (trx) => {
    if (!(await deletePersonSession(trx, { id, personId: row.id }))) {
      throw new AppError('NOT_FOUND', { message: 'There is no such session' })
    }
    await recordSuccess(deps, trx, {
      client: row.client,
      actor: owner.actor,
      action: 'session.ended',
      resourceId: id,
    })
  })
}

/** The owner, who has just typed the password; wrong ones count for this session alone. */
async function confirmed(
  deps: PaymentDeps,
  { personId, sessionId }: Owner,
  password: string,
): Promise<PersonRow> {
  const row = await requirePerson(deps, undefined, personId)
  const counted = countedForSession(sessionId)
  await countTry(deps, counted.subject, counted.most)
  if (!(await deps.passwords.matches(password, row.password_hash))) throw wrongPassword()
  await forgiveSignInTries(deps.database.db, [counted])
  return row
}

function passwordOf({ password_hash }: PersonRow) {
  return { password_hash }
}

function wrongPassword(): AppError {
  return invalid('password', { code: 'PASSWORD_WRONG' })
}

function noNewSecret(): AppError {
  return new AppError('CONFLICT', { message: 'There is no new secret to confirm' })
}

function record(
  deps: PaymentDeps,
  trx: Trx,
  { actor }: Owner,
  { id, name, client }: PersonRow,
  action: string,
): Promise<void> {
  return recordSuccess(deps, trx, { client, actor, action, resourceId: id, metadata: { name } })
}
