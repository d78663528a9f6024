import { request } from '../shared/api.js'

/** Whose token it is: `{valid, type, client}`. */
export function validateToken(token) {
  return request('GET', '/oauth/validate', { token })
}
