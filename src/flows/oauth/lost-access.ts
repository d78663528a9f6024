import { hash } from 'node:crypto'
import type { Db } from '../../db/database.ts'
import type { AccessLost } from '../../fleet/observations.ts'
import { type GrantRow, listLostGrants } from '../../repositories/flows/oauth-grants.ts'
import type { Reason } from '../../texts/reason.ts'
import type { Flow } from '../definition/schema.ts'
import type { OAuthSettings } from './access-tokens.ts'

/** The reserved destination name that means the source. */
export const ofSource = 'source'

/** The OAuth access of a flow's source (`source`) and of its destinations by name. */
export function accessesOf({
  source,
  destinations,
}: Pick<Flow, 'source' | 'destinations'>): { name: string; auth: OAuthSettings }[] {
  const all = [{ ...source, name: ofSource }, ...destinations]
  return all.flatMap((one) =>
    one.type === 'http' && one.auth ? [{ name: one.name, auth: one.auth }] : [],
  )
}

/** The id of an access: by token address, client and first refresh token. Undefined for other grants. */
export function grantIdOf(auth: OAuthSettings): string | undefined {
  const { grant, refreshToken, tokenUrl, clientId } = auth
  if (grant !== 'refresh_token' || !refreshToken) return undefined
  const parts = [tokenUrl, clientId, refreshToken].map((one) => one.reveal())
  return hash('sha256', JSON.stringify(['oauth grant', ...parts]), 'hex')
}

/** The reference of the first refresh token in the flow file, never its value. */
function placeOf({ refreshToken }: Pick<OAuthSettings, 'refreshToken'>): string {
  return refreshToken?.template ?? 'refreshToken'
}

type LostGrant = Pick<GrantRow, 'lost_reason' | 'unheard_since' | 'version'>

/** Why an access was lost, and what the operator must do. */
export function lostGrantReason(
  { lost_reason: issued, unheard_since: cut, version }: LostGrant,
  auth: Pick<OAuthSettings, 'refreshToken'>,
): Reason {
  const place = placeOf(auth)
  if (issued === 'encryption_key_lost') return { code: 'ACCESS_LOST_KEY', data: { place } }
  const data = { place, code: issued ?? '' }
  if (cut) return { code: 'ACCESS_LOST_CUT', data: { ...data, at: cut.toISOString() } }
  return { code: version === 1 ? 'ACCESS_LOST_FIRST' : 'ACCESS_LOST_LATER', data }
}

/** Lost accesses by flow, with the names of `accessesOf`. */
export async function findLostAccesses(
  db: Db,
  flows: readonly Pick<Flow, 'name' | 'source' | 'destinations'>[],
): Promise<(flow: string, name: string) => AccessLost | null> {
  const renewed = flows.flatMap((flow) =>
    accessesOf(flow).flatMap(({ name, auth }) => {
      const id = grantIdOf(auth)
      return id ? [{ key: JSON.stringify([flow.name, name]), id, place: placeOf(auth) }] : []
    }),
  )
  const rows = await listLostGrants(
    db,
    renewed.map(({ id }) => id),
  )
  const lost = new Map(
    renewed.flatMap(({ key, id, place }) => {
      const row = rows.find((one) => one.id === id)
      return row?.lost_at ? [[key, { since: row.lost_at, code: row.lost_reason, place }]] : []
    }),
  )
  return (flow, name) => lost.get(JSON.stringify([flow, name])) ?? null
}
