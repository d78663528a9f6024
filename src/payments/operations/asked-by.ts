import type { AskedBy } from '../../db/tables.ts'
import type { Actor } from '../deps.ts'

/** Who asks, in the form in which an operation keeps it; null for the service's own. */
export function askedBy({ ipAddress, keyId, person, sessionId, reason }: Actor): string | null {
  if (ipAddress === null) return null
  const kept: AskedBy = {
    address: ipAddress,
    ...(keyId !== undefined && { key_id: keyId }),
    ...(person && { person: { id: person.id, name: person.name } }),
    ...(sessionId !== undefined && { session_id: sessionId }),
    ...(reason !== undefined && { reason }),
  }
  return JSON.stringify(kept)
}

/** The actor of the end of an operation: who asked for it, also where the service ends it. */
export function actorOfEnd(operation: { asked_by: AskedBy | null }, actor: Actor): Actor {
  const { asked_by: asked } = operation
  if (actor.ipAddress !== null || asked === null) return actor
  return {
    ...actor,
    ipAddress: asked.address,
    keyId: asked.key_id,
    person: asked.person,
    sessionId: asked.session_id,
    reason: asked.reason,
  }
}
