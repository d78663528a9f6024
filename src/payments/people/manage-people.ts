import { randomBytes, randomUUID } from 'node:crypto'
import { asClientName, type ClientName } from '../../domain/client-name.ts'
import { nameKey, placesOfRole, type Role } from '../../domain/permissions.ts'
import { hashSecret } from '../../domain/secret-hash.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { findClient } from '../../repositories/connection/clients.ts'
import {
  type Among,
  findInvited,
  findPerson,
  insertPerson,
  listPeople,
  type PersonRow,
  updatePerson,
  usePersonInvitation,
} from '../../repositories/people/people-queries.ts'
import {
  deletePersonSessions,
  listPersonSessions,
  type SessionRow,
} from '../../repositories/session/sessions.ts'
import { listStores } from '../../repositories/stores/store-queries.ts'
import { recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { type Begun, beginSession, type From, idleMs } from './sign-in-session.ts'

/** Long enough for a weekend. */
const invitationMs = 3 * 24 * 3_600_000

/** An administrator: of the whole service, or of one client, whose people alone he reaches. */
export type Manager = { among: Among; actor: Actor }

type NewPerson = {
  name: string
  role: Role
  client: string | null
  stores: readonly string[] | null
}

/** A code that is shown once; only its hash is stored. */
export type Invitation = { code: string; expiresAt: Date }

export function readPeople({ database: { db } }: PaymentDeps, among: Among): Promise<PersonRow[]> {
  return listPeople(db, among)
}

/**
 * Makes a person who sets the password with the invitation.
 *
 * @throws NOT_FOUND for an unknown client, CONFLICT for a name that is taken, VALIDATION_ERROR
 */
export async function invitePerson(
  deps: PaymentDeps,
  { among, actor }: Manager,
  { name, role, client: named, stores }: NewPerson,
): Promise<{ person: PersonRow; invitation: Invitation }> {
  if (among !== undefined && named !== null && named !== among) throw new AppError('FORBIDDEN')
  const client = among ?? (named === null ? null : await knownClient(deps, named))
  await requireFittingRole(deps, { role, client, stores })
  const { invitation, columns } = newInvitation(deps.now())
  const id = randomUUID()
  await deps.database.transaction(async (trx) => {
    const isNew = await insertPerson(trx, {
      id,
      client,
      name: name.trim(),
      name_key: nameKey(name),
      role,
      stores: stores && JSON.stringify(stores),
      password_hash: null,
      totp_secret: null,
      totp_step: null,
      ...columns,
      created_at: deps.now(),
      signed_in_at: null,
      revoked_at: null,
    })
    if (!isNew) throw new AppError('CONFLICT', { message: 'This name is taken; choose another' })
    await recordSuccess(deps, trx, {
      client,
      actor,
      action: 'person.invited',
      resourceId: id,
      metadata: { name: name.trim(), role, ...(stores && { stores }) },
    })
  })
  return { person: await requirePerson(deps, among, id), invitation }
}

/**
 * Changes role and stores, which takes effect at the next request of the person.
 *
 * @throws NOT_FOUND, VALIDATION_ERROR
 */
export async function changePerson(
  deps: PaymentDeps,
  manager: Manager,
  id: string,
  { role, stores }: { role: Role; stores: readonly string[] | null },
): Promise<PersonRow> {
  const before = await requirePerson(deps, manager.among, id)
  await requireFittingRole(deps, { role, client: before.client, stores })
  return change(deps, manager, before, {
    action: 'person.changed',
    fields: { role, stores: stores && JSON.stringify(stores) },
    metadata: {
      role,
      role_before: before.role,
      ...(stores && { stores }),
      ...(before.stores && { stores_before: before.stores }),
    },
  })
}

/** Changes a person, with an entry of the audit log. */
async function change(
  deps: PaymentDeps,
  { among, actor }: Manager,
  { id, client, name }: PersonRow,
  {
    action,
    fields,
    metadata,
    endsSessions = false,
  }: {
    action: string
    fields: Parameters<typeof updatePerson>[2]
    metadata?: Record<string, unknown>
    endsSessions?: boolean
  },
): Promise<PersonRow> {
  await deps.database.transaction(async (trx) => {
    if (!(await updatePerson(trx, id, fields))) throw noSuchPerson()
    if (endsSessions) await deletePersonSessions(trx, id)
    const entry = { client, actor, action, resourceId: id, metadata: { name, ...metadata } }
    await recordSuccess(deps, trx, entry)
  })
  return requirePerson(deps, among, id)
}

const withoutAccess = { password_hash: null, totp_secret: null, totp_on: false } as const

/**
 * Takes password, codes and sessions away and makes a new invitation.
 *
 * @throws NOT_FOUND, also for a revoked person
 */
export async function resetPerson(
  deps: PaymentDeps,
  manager: Manager,
  id: string,
): Promise<{ person: PersonRow; invitation: Invitation }> {
  const { invitation, columns } = newInvitation(deps.now())
  const person = await change(deps, manager, await requirePerson(deps, manager.among, id), {
    action: 'person.reset',
    fields: { ...withoutAccess, ...columns },
    endsSessions: true,
  })
  return { person, invitation }
}

/**
 * Ends all that the person may do, at once and for good. The name stays taken, since the log names it.
 *
 * @throws NOT_FOUND, also for a person who is revoked already
 */
export async function revokePerson(
  deps: PaymentDeps,
  manager: Manager,
  id: string,
): Promise<PersonRow> {
  return change(deps, manager, await requirePerson(deps, manager.among, id), {
    action: 'person.revoked',
    fields: {
      ...withoutAccess,
      revoked_at: deps.now(),
      invitation_hash: null,
      invitation_expires_at: null,
    },
    endsSessions: true,
  })
}

/** The open sessions of a person. Throws NOT_FOUND. */
export async function readSessionsOf(
  deps: PaymentDeps,
  among: Among,
  id: string,
): Promise<SessionRow[]> {
  await requirePerson(deps, among, id)
  const now = deps.now()
  const idleSince = new Date(now.getTime() - idleMs)
  return listPersonSessions(deps.database.db, id, { now, idleSince })
}

/** Ends all sessions of a person; returns how many there were. Throws NOT_FOUND. */
export async function endSessionsOf(
  deps: PaymentDeps,
  { among, actor }: Manager,
  id: string,
): Promise<number> {
  const { client, name } = await requirePerson(deps, among, id)
  return deps.database.transaction(async (trx) => {
    const ended = await deletePersonSessions(trx, id)
    await recordSuccess(deps, trx, {
      client,
      actor,
      action: 'person.sessions_ended',
      resourceId: id,
      metadata: { name, sessions: ended },
    })
    return ended
  })
}

/**
 * Sets the password with the code of an invitation, which is used up, and begins a session.
 *
 * @throws INVITATION_INVALID
 */
export async function acceptInvitation(
  deps: PaymentDeps,
  { code, password }: { code: string; password: string },
  from: From,
): Promise<Begun> {
  const hash = hashSecret(code)
  // Before the password costs time: a caller without an invitation has no code.
  if (!(await findInvited(deps.database.db, hash, deps.now()))) {
    throw new AppError('INVITATION_INVALID')
  }
  const passwordHash = await deps.passwords.hash(password)
  return deps.database.transaction(async (trx) => {
    const now = deps.now()
    const row = await usePersonInvitation(trx, { hash, passwordHash, now })
    const begun = row && (await beginSession(deps, trx, row, from))
    if (!row || !begun) throw new AppError('INVITATION_INVALID')
    await recordSuccess(deps, trx, {
      client: row.client,
      actor: { ...from.actor, person: begun.person, sessionId: begun.sessionId },
      action: 'person.invitation_used',
      resourceId: row.id,
      metadata: { name: row.name },
    })
    return begun
  })
}

/** @throws NOT_FOUND */
export async function requirePerson(
  { database: { db } }: Pick<PaymentDeps, 'database'>,
  among: Among,
  id: string,
): Promise<PersonRow> {
  const row = await findPerson(db, among, id)
  if (!row) throw noSuchPerson()
  return row
}

function noSuchPerson(): AppError {
  return new AppError('NOT_FOUND', { message: 'There is no such person' })
}

async function knownClient(deps: PaymentDeps, named: string): Promise<ClientName> {
  if (await findClient(deps.database.db, named)) return asClientName(named)
  throw new AppError('NOT_FOUND', { message: 'There is no such client' })
}

async function requireFittingRole(
  deps: PaymentDeps,
  {
    role,
    client,
    stores,
  }: { role: Role; client: ClientName | null; stores: readonly string[] | null },
): Promise<void> {
  const place = client === null ? 'service' : 'client'
  if (!placesOfRole[role].includes(place)) {
    const code = client === null ? 'ROLE_OF_CLIENT' : 'ROLE_OF_SERVICE'
    throw invalid('role', { code, data: { role } })
  }
  if (role !== 'supervisor') {
    if (stores !== null) throw invalid('stores', { code: 'STORES_OF_SUPERVISOR' })
    return
  }
  if (!stores || stores.length === 0) throw invalid('stores', { code: 'STORES_MISSING' })
  const known = new Set(
    (await listStores(deps.database.db, client as ClientName)).map((store) => store.external_id),
  )
  const unknown = stores.find((id) => !known.has(id))
  if (unknown !== undefined) {
    throw invalid('stores', { code: 'STORE_UNKNOWN', data: { store: JSON.stringify(unknown) } })
  }
}

function newInvitation(now: Date) {
  const code = randomBytes(32).toString('base64url')
  const expiresAt = new Date(now.getTime() + invitationMs)
  const columns = { invitation_hash: hashSecret(code), invitation_expires_at: expiresAt }
  return { invitation: { code, expiresAt }, columns }
}
