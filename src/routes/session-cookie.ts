import type { CookieSerializeOptions } from '@fastify/cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sessionMs } from '../payments/people/sign-in-session.ts'

// One cookie for both listeners: where they have one host, its cookies are sent to both ports. So a browser has one session, and
// signing in or out on one listener ends the session that the browser had before. Each listener decides what a session may do there.

/** What a browser is given to keep. */
export type Cookie = { name: string; value: string; options: CookieSerializeOptions }

/**
 * `__Host-` stops other hosts of the domain, and plain http, from setting the cookie. Browsers accept it over https only, so over
 * plain http, on the machine itself, the name is without it.
 */
export const sessionCookieName = (isSecure: boolean) =>
  `${isSecure ? '__Host-' : ''}tillbridge-session`

/** A secret whose hash the database has. */
export function sessionCookie(secret: string, isSecure: boolean): Cookie {
  const options = { ...ofPages(isSecure), maxAge: sessionMs / 1000 }
  return { name: sessionCookieName(isSecure), value: secret, options }
}

/** The secret that the browser of a request sends. */
export function sessionSecretOf(
  { cookies }: FastifyRequest,
  isSecure: boolean,
): string | undefined {
  return cookies[sessionCookieName(isSecure)] || undefined
}

/** Deletes it. */
export function endedCookie(isSecure: boolean): Cookie {
  return {
    name: sessionCookieName(isSecure),
    value: '',
    options: { ...ofPages(isSecure), maxAge: 0 },
  }
}

/** For this host alone, and not readable by scripts. */
export function ofPages(isSecure: boolean): CookieSerializeOptions {
  return { path: '/', httpOnly: true, sameSite: 'strict', secure: isSecure }
}

export function setCookies(reply: FastifyReply, cookies: readonly Cookie[]): void {
  for (const { name, value, options } of cookies) reply.setCookie(name, value, options)
}
