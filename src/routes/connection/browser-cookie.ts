import { cookieValue } from '../session/session-cookie.ts'

/**
 * Binds a login to the browser that started it. The `__Host-` prefix needs https. Over plain http (loopback) there is no cookie
 * and only the state protects; over https a return without it is refused.
 */
const name = '__Host-tillbridge-login'

export function browserTokenCookie(token: string): string {
  return `${name}=${token}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600`
}

/** The value that this browser received; undefined when it sends none. */
export function browserTokenOf(cookieHeader: string | undefined): string | undefined {
  return cookieValue(cookieHeader, name)
}
