import { request } from '../shared/api.js'

/** Begins a session. Rejects with status 401 for a token that is not valid. */
export function signIn(token) {
  return request('POST', '/session', { body: { token } })
}

/** Sets the first password with an invitation, which begins a session. */
export function acceptInvitation(code, password) {
  return request('POST', '/account/invitation', { body: { code, password } })
}
