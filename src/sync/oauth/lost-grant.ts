import { hash } from 'node:crypto'
import type { Db } from '../../db/database.ts'
import type { AccessLost } from '../../fleet/observations.ts'
import { type GrantRow, listLostGrants } from '../../repositories/flows/oauth-grants.ts'
import type { Flow } from '../definition/schema.ts'
import type { OAuthSettings } from './tokens.ts'

/** What no destination may be called, since it stands for the source. */
export const ofSource = 'source'

/** What a flow shows tokens for: its destinations by their names, and `source`. */
export function accessesOf({
  source,
  destinations,
}: Pick<Flow, 'source' | 'destinations'>): { name: string; auth: OAuthSettings }[] {
  const all = [{ ...source, name: ofSource }, ...destinations]
  return all.flatMap((one) =>
    one.type === 'http' && one.auth ? [{ name: one.name, auth: one.auth }] : [],
  )
}

/** The name of an access: where it is renewed, for whom, and its first refresh token. Undefined where none is renewed. */
export function grantIdOf(auth: OAuthSettings): string | undefined {
  const { grant, refreshToken, tokenUrl, clientId } = auth
  if (grant !== 'refresh_token' || !refreshToken) return undefined
  const parts = [tokenUrl, clientId, refreshToken].map((one) => one.reveal())
  return hash('sha256', JSON.stringify(['oauth grant', ...parts]), 'hex')
}

/** Where the flow file takes the first refresh token from; its reference, never its value. */
export function placeOf({ refreshToken }: Pick<OAuthSettings, 'refreshToken'>): string {
  return refreshToken?.template ?? 'refreshToken'
}

/** What became of an access that is lost, and what to do, for people. */
export function lostGrantText(row: LostGrant, auth: Pick<OAuthSettings, 'refreshToken'>): string {
  const place = placeOf(auth)
  const todo = `Authorize the application again, put the new refresh token into ${place} (restart, if it is a variable) and have the flows read again. Until then nothing is sent or read with it, and nothing is lost.`
  return `no access token: ${causeOf(row)}. ${todo}`
}

type LostGrant = Pick<GrantRow, 'lost_reason' | 'unheard_since' | 'version'>

/** What became of an access that is lost, for people. */
function causeOf({ lost_reason: code, unheard_since: cut, version }: LostGrant): string {
  if (code === 'encryption_key_lost') {
    return 'the encryption key of the newest refresh token was lost'
  }
  const refused = `the issuer refused the refresh token (${code})`
  if (cut) {
    return `${refused}; a renewal of ${cut.toISOString()} was cut before its answer was kept, so the token that it brought is lost`
  }
  return version === 1
    ? `${refused}; the first one is wrong, too old, or was used elsewhere already`
    : `${refused}; it was revoked, was used by somebody else, or came back with a restored backup`
}

/** The accesses of flows that nobody renews any more, by flow and by the name that `accessesOf` gives. */
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
