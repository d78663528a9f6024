import { hash } from 'node:crypto'
import type { GrantRow } from '../../repositories/flows/oauth-grants.ts'
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
  return `no access token: ${causeOf(lossOf(row))}. ${todo}`
}

/** How an access was lost: refused with a `code`, whether at its first renewal, and when one was cut before. */
export type Loss = { code: string | null; isFirst: boolean; cutAt: string | null }

type LostGrant = Pick<GrantRow, 'lost_reason' | 'unheard_since' | 'version'>

/** How an access was lost. */
export function lossOf({ lost_reason: code, unheard_since: cut, version }: LostGrant): Loss {
  return { code, isFirst: version === 1, cutAt: cut?.toISOString() ?? null }
}

/** What became of an access, in a language. */
export type LossWords = {
  keyLost: string
  refused(code: string | null): string
  cut(time: string): string
  first: string
  later: string
}

const english: LossWords = {
  keyLost: 'the encryption key of the newest refresh token was lost',
  refused: (code) => `the issuer refused the refresh token (${code})`,
  cut: (time) =>
    `a renewal of ${time} was cut before its answer was kept, so the token that it brought is lost`,
  first: 'the first one is wrong, too old, or was used elsewhere already',
  later: 'it was revoked, was used by somebody else, or came back with a restored backup',
}

/** What became of an access that is lost, for people. */
export function causeOf({ code, isFirst, cutAt }: Loss, words = english): string {
  if (code === 'encryption_key_lost') return words.keyLost
  const refused = words.refused(code)
  if (cutAt !== null) return `${refused}; ${words.cut(cutAt)}`
  return `${refused}; ${isFirst ? words.first : words.later}`
}
