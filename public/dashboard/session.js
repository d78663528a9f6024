import { request } from '../shared/api.js'

/** The session is a cookie that scripts cannot read; only the service knows whose it is: `{valid, type, client}`. */
export function readSession() {
  return request('GET', '/session', {})
}

/** Rejects with status 401 for a token that is not valid. */
export function signIn(token) {
  return request('POST', '/session', { body: { token } })
}

export function signOut() {
  return request('DELETE', '/session', {})
}
