import type { OAuthSettings } from '../oauth/tokens.ts'
import type { Path, PathFinding } from './findings.ts'

/** The first refresh token is there where one is renewed, and nowhere else. `under` is where `auth` stands. */
export function grantFindings(auth: OAuthSettings | undefined, under: Path): PathFinding[] {
  if (!auth) return []
  const { grant, refreshToken } = auth
  const path = [...under, 'auth']
  if (grant === 'refresh_token' && !refreshToken) {
    const message = 'needs refreshToken: the one that the issuer gave with the authorization'
    const hint = `add refreshToken: \${env:NAME} or \${file:/path}`
    return [{ path: [...path, 'grant'], message, hint }]
  }
  if (grant !== 'refresh_token' && refreshToken) {
    const message = 'is of no use without grant: refresh_token'
    return [
      { path: [...path, 'refreshToken'], isKey: true, message, hint: 'add grant: refresh_token' },
    ]
  }
  return []
}
