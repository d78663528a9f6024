import type { Db } from '../../db/database.ts'
import { listLostGrants } from '../../repositories/oauth-grants.ts'
import type { Flow } from '../definition/schema.ts'
import { grantIdOf, lostGrantCause, placeOf } from '../destinations/lost-grant.ts'
import type { HeldBack } from './compose.ts'

/** The destinations whose access is renewed, each with since when nothing renews it any more. */
export async function heldAccesses(
  db: Db,
  { destinations }: Pick<Flow, 'destinations'>,
): Promise<{ destination: string; held: HeldBack }[]> {
  const renewed = destinations.flatMap((one) => {
    const auth = one.type === 'http' ? one.auth : undefined
    const id = auth && grantIdOf(auth)
    return auth && id ? [{ destination: one.name, id, place: placeOf(auth) }] : []
  })
  const lost = await listLostGrants(
    db,
    renewed.map(({ id }) => id),
  )
  return renewed.map(({ destination, id, place }) => {
    const row = lost.find((one) => one.id === id)
    const reason = row ? lostGrantCause(row) : ''
    return {
      destination,
      held: {
        since: row?.lost_at ?? null,
        held: (since) => ({ kind: 'unauthorized', destination, reason, place, since }),
        released: (since) => ({ kind: 'authorized', destination, since }),
      },
    }
  })
}
