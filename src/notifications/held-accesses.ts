import type { Db } from '../db/database.ts'
import { listLostGrants } from '../repositories/flows/oauth-grants.ts'
import type { Flow } from '../sync/definition/schema.ts'
import { accessesOf, causeOf, grantIdOf, lossOf, placeOf } from '../sync/oauth/lost-grant.ts'
import type { HeldBack } from './compose-failures.ts'

/** The destinations, and the source, whose access is renewed, each with since when nothing renews it any more. */
export async function heldAccesses(
  db: Db,
  flow: Pick<Flow, 'source' | 'destinations'>,
): Promise<{ destination: string; held: HeldBack }[]> {
  const renewed = accessesOf(flow).flatMap(({ name, auth }) => {
    const id = grantIdOf(auth)
    return id ? [{ destination: name, id, place: placeOf(auth) }] : []
  })
  const lost = await listLostGrants(
    db,
    renewed.map(({ id }) => id),
  )
  return renewed.map(({ destination, id, place }) => {
    const row = lost.find((one) => one.id === id)
    const loss = row && lossOf(row)
    const reason = loss ? causeOf(loss) : ''
    return {
      destination,
      held: {
        since: row?.lost_at ?? null,
        held: (since) => ({
          kind: 'unauthorized',
          destination,
          reason,
          ...(loss && { loss }),
          place,
          since,
        }),
        released: (since) => ({ kind: 'authorized', destination, since }),
      },
    }
  })
}
