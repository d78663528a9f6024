import type { OAuthSettings } from '../oauth/tokens.ts'
import type { Path, PathFinding } from './findings.ts'

/** The first refresh token is required for the grant `refresh_token` and forbidden for others. `under` is the path of `auth`. */
export function grantFindings(auth: OAuthSettings | undefined, under: Path): PathFinding[] {
  if (!auth) return []
  const { grant, refreshToken } = auth
  const path = [...under, 'auth']
  if (grant === 'refresh_token' && !refreshToken) {
    return [{ path: [...path, 'grant'], why: { code: 'NEEDS_REFRESH_TOKEN' } }]
  }
  if (grant !== 'refresh_token' && refreshToken) {
    const why = { code: 'USELESS_WITHOUT_GRANT' } as const
    return [{ path: [...path, 'refreshToken'], isKey: true, why }]
  }
  return []
}
