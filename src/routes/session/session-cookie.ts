import { z } from 'zod'
import type { Sealer } from '../../domain/sealed.ts'

/**
 * Whom a session speaks for: by a proof of the admin token, or the key's id; never the token itself. It counts only as
 * long as the row of its id is there.
 */
const Session = z.discriminatedUnion('type', [
  z.object({ type: z.literal('admin'), id: z.uuid(), proof: z.string(), until: z.number() }),
  z.object({ type: z.literal('client'), id: z.uuid(), keyId: z.uuid(), until: z.number() }),
])
export type Session = z.infer<typeof Session>

/** A long shift. The end is fixed at sign-in: what is forgotten on a shared machine closes by itself. */
export const sessionSeconds = 12 * 60 * 60

const context = 'dashboard session'
/** `__Host-` keeps other hosts of the domain from planting one; browsers take it over https only. */
const nameOf = (isSecure: boolean) => `${isSecure ? '__Host-' : ''}tillbridge-session`

export type CookieOptions = { sealer: Sealer; isSecure: boolean }

/** The header value that makes a browser keep the session. Out of reach of scripts, and sealed. */
export function sessionCookie(session: Session, { sealer, isSecure }: CookieOptions): string {
  const value = sealer.seal(JSON.stringify(session), context)
  return `${nameOf(isSecure)}=${value}; Max-Age=${sessionSeconds}${attributes(isSecure)}`
}

/** The header value that makes a browser forget it. */
export function endedCookie(isSecure: boolean): string {
  return `${nameOf(isSecure)}=; Max-Age=0${attributes(isSecure)}`
}

function attributes(isSecure: boolean): string {
  return `; Path=/; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
}

/** The session in a Cookie header that is not past its time; undefined for none, an altered or an old one. */
export function sessionOf(
  header: string | undefined,
  { sealer, isSecure }: CookieOptions,
  now: Date,
): Session | undefined {
  const prefix = `${nameOf(isSecure)}=`
  const found = header?.split(';').find((part) => part.trim().startsWith(prefix))
  if (found === undefined) return undefined
  let content: unknown
  try {
    content = JSON.parse(sealer.open(found.trim().slice(prefix.length), context))
  } catch {
    return undefined
  }
  const session = Session.safeParse(content)
  return session.success && session.data.until > now.getTime() ? session.data : undefined
}
