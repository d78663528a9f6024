import { z } from 'zod'
import type { Encryption } from '../../domain/encryption.ts'

/**
 * The principal of a session: a proof of the admin token, or the key's id; never the token itself. It is valid only while the row
 * of its id exists.
 */
const Session = z.discriminatedUnion('type', [
  z.object({ type: z.literal('admin'), id: z.uuid(), proof: z.string(), until: z.number() }),
  z.object({ type: z.literal('client'), id: z.uuid(), keyId: z.uuid(), until: z.number() }),
])
export type Session = z.infer<typeof Session>

/** A long shift. The end is fixed at sign-in, so that a session on a shared machine expires by itself. */
export const sessionSeconds = 12 * 60 * 60

const context = 'dashboard session'
/** `__Host-` stops other hosts of the domain from setting one; browsers accept it over https only. */
export const sessionCookieName = (isSecure: boolean) =>
  `${isSecure ? '__Host-' : ''}tillbridge-session`
/** Before the secret of a person's session, which no sealed value begins with. */
const personMark = 'person.'

type CookieOptions = { encryption: Encryption; isSecure: boolean }

/** The header value that sets the session cookie: encrypted, and not readable by scripts. */
export function sessionCookie(session: Session, { encryption, isSecure }: CookieOptions): string {
  const value = encryption.encrypt(JSON.stringify(session), context)
  return `${sessionCookieName(isSecure)}=${value}; Max-Age=${sessionSeconds}${cookieAttributes(isSecure)}`
}

/** The header value that sets the cookie of a person's session: a secret whose hash the database has. */
export function personCookie(secret: string, isSecure: boolean): string {
  return `${sessionCookieName(isSecure)}=${personMark}${secret}; Max-Age=${sessionSeconds}${cookieAttributes(isSecure)}`
}

/** The secret of a person's session in a Cookie header. */
export function personSecretOf(header: string | undefined, isSecure: boolean): string | undefined {
  const value = cookieValue(header, sessionCookieName(isSecure))
  return value?.startsWith(personMark) ? value.slice(personMark.length) : undefined
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

/** The unexpired session in a Cookie header; undefined for none, an altered or an expired one. */
export function sessionOf(
  header: string | undefined,
  { encryption, isSecure }: CookieOptions,
  now: Date,
): Session | undefined {
  const value = cookieValue(header, sessionCookieName(isSecure))
  if (value === undefined) return undefined
  let content: unknown
  try {
    content = JSON.parse(encryption.decrypt(value, context))
  } catch {
    return undefined
  }
  const session = Session.safeParse(content)
  return session.success && session.data.until > now.getTime() ? session.data : undefined
}
