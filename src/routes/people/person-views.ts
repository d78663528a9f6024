import type { PersonRow } from '../../repositories/people/people-queries.ts'
import type { SessionRow } from '../../repositories/session/sessions.ts'

export function viewPerson(row: PersonRow, now: Date) {
  return {
    id: row.id,
    name: row.name,
    role: row.role,
    client: row.client,
    stores: row.stores,
    state: stateOf(row, now),
    totp: row.totp_on,
    created_at: row.created_at,
    signed_in_at: row.signed_in_at,
    invitation_expires_at: row.invitation_expires_at,
  }
}

function stateOf(row: PersonRow, now: Date): 'active' | 'invited' | 'expired' | 'revoked' {
  if (row.revoked_at !== null) return 'revoked'
  if (row.password_hash !== null) return 'active'
  const { invitation_expires_at: until } = row
  return until !== null && until > now ? 'invited' : 'expired'
}

export function viewPersonSession(row: SessionRow, current: string | undefined) {
  return {
    id: row.id,
    is_current: row.id === current,
    created_at: row.created_at,
    used_at: row.used_at,
    expires_at: row.expires_at,
    ip_address: row.ip_address,
    user_agent: row.user_agent,
  }
}
