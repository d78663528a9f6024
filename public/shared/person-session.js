import { request } from './api.js'

/** The session is a cookie that scripts cannot read; only the service knows whose it is. */
export function readSession() {
  return request('GET', '/session', {})
}

/** With a name, a password and, for people who have set it up, a code of an authenticator app. Rejects with status 401 when one is wrong. */
export function signInPerson({ name, password, code }) {
  const body = { name: name.trim(), password, ...(code.trim() && { code: code.trim() }) }
  return request('POST', '/session', { body })
}

export function signOut() {
  return request('DELETE', '/session', {})
}
