import { randomUUID } from 'node:crypto'
import { asClientName } from '../../domain/client-name.ts'
import { DecryptionError } from '../../domain/encryption.ts'
import { AppError } from '../../errors/app-error.ts'
import { countApiKeys } from '../../repositories/api-keys/api-key-queries.ts'
import { findClient } from '../../repositories/connection/clients.ts'
import {
  deleteOpenInvitation,
  findInvitation,
  insertInvitation,
} from '../../repositories/connection/invitation-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { refuseConnected } from './connected-account.ts'

const invitationLifeMs = 24 * 3600_000

/**
 * Makes a link that connects a client without an account, or without any key: once, within a day.
 *
 * @throws CONFLICT for a client that has both
 */
export async function createInvitation(
  deps: PaymentDeps,
  client: string,
  actor: Actor,
): Promise<{ id: string; url: string; expiresAt: Date }> {
  const entry = {
    client,
    actor,
    action: 'invitation.created',
    resourceId: client,
  }
  const now = deps.now()
  const invitation = {
    id: randomUUID(),
    client,
    created_at: now,
    expires_at: new Date(now.getTime() + invitationLifeMs),
  }
  await auditFailure(deps, entry, () =>
    deps.database.transaction(async (trx) => {
      const keys = await countApiKeys(trx, client)
      const known = await findClient(trx, client)
      if (keys.total > 0 && known?.mp_user_id !== null) {
        throw new AppError('CONFLICT', {
          message:
            'The client has keys and an account: it needs no invitation, and another account only once this one is released',
        })
      }
      await insertInvitation(trx, invitation)
      await recordSuccess(deps, trx, entry)
    }),
  )
  const url = new URL(`${deps.settings.publicUrl}/oauth/invitation`)
  url.searchParams.set('client', client)
  const token = deps.encryption.encrypt(invitation.id, invitationContext(client))
  url.searchParams.set('invitation', token)
  return { id: invitation.id, url: url.href, expiresAt: invitation.expires_at }
}

/**
 * Checks that the invitation could start a login now. It is not used up, since messengers open links too.
 *
 * @throws INVITATION_INVALID, OAUTH_ALREADY_CONNECTED
 */
export async function checkInvitation(
  deps: PaymentDeps,
  client: string,
  invitation: string,
): Promise<void> {
  const id = readInvitation(deps, invitation, client)
  if (id === undefined) throw new AppError('INVITATION_INVALID')
  // First: a person who opens the link again needs the message that it is connected, not that the link is used up.
  await refuseConnected(deps, asClientName(client))
  const row = await findInvitation(deps.database.db, id)
  if (!row || row.used_at !== null || row.expires_at <= deps.now()) {
    throw new AppError('INVITATION_INVALID')
  }
}

/**
 * Revokes an unused invitation: its link no longer starts a login.
 *
 * @throws NOT_FOUND for any other
 */
export async function revokeInvitation(deps: PaymentDeps, id: string, actor: Actor): Promise<void> {
  const { db } = deps.database
  const client = (await findInvitation(db, id))?.client ?? null
  const entry = {
    client,
    actor,
    action: 'invitation.revoked',
    resourceId: id,
  }
  await auditFailure(deps, entry, () =>
    deps.database.transaction(async (trx) => {
      if (!(await deleteOpenInvitation(trx, id, deps.now()))) {
        throw new AppError('NOT_FOUND', { message: 'No such invitation is open' })
      }
      await recordSuccess(deps, trx, entry)
    }),
  )
}

/** What a link's token, the encrypted id of the invitation, is bound to. */
function invitationContext(client: string): string {
  return `invitation:${client}`
}

/** The id inside a link's token when this service made it for the client; undefined otherwise. */
export function readInvitation(
  { encryption }: Pick<PaymentDeps, 'encryption'>,
  token: string,
  client: string,
): string | undefined {
  try {
    return encryption.decrypt(token, invitationContext(client))
  } catch (error) {
    if (error instanceof DecryptionError) return undefined
    throw error
  }
}
