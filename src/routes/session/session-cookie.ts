import { sessionMs } from '../../payments/people/sign-in-session.ts'

// One cookie for both listeners: where they have one host, its cookies are sent to both ports. So a browser has one session, and
// signing in or out on one listener ends the session that the browser had before. Each listener decides what a session may do there.

/**
 * `__Host-` stops other hosts of the domain, and plain http, from setting the cookie. Browsers accept it over https only, so over
 * plain http, on the machine itself, the name is without it.
 */
export const sessionCookieName = (isSecure: boolean) =>
  `${isSecure ? '__Host-' : ''}tillbridge-session`

/** The header value that sets the session cookie: a secret whose hash the database has. */
export function sessionCookie(secret: string, isSecure: boolean): string {
  return `${sessionCookieName(isSecure)}=${secret}; Max-Age=${sessionMs / 1000}${cookieAttributes(isSecure)}`
}

/** The secret in a Cookie header. */
export function sessionSecretOf(header: string | undefined, isSecure: boolean): string | undefined {
  return cookieValue(header, sessionCookieName(isSecure)) || undefined
}

/** The value of a cookie; undefined when the browser sends none of this name. */
export function cookieValue(header: string | undefined, name: string): string | undefined {
  const prefix = `${name}=`
  const found = header?.split(';').find((part) => part.trim().startsWith(prefix))
  return found?.trim().slice(prefix.length)
}

/** The header value that deletes it. */
export function endedCookie(isSecure: boolean): string {
  return `${sessionCookieName(isSecure)}=; Max-Age=0${cookieAttributes(isSecure)}`
}

/** Of each cookie of the pages: for this host alone, and not readable by scripts. */
export function cookieAttributes(isSecure: boolean): string {
  return `; Path=/; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
}
