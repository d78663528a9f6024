import { randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Encryption } from '../domain/encryption.ts'
import { nameKey } from '../domain/permissions.ts'
import { hashSecret } from '../domain/secret-hash.ts'
import { type Cookie, ofPages } from './session-cookie.ts'

/** A browser in which these people signed in before. Names are shortened hashes, the last one that signed in first. */
const Device = z.object({ id: z.uuid(), names: z.array(z.string()) })
type Device = z.infer<typeof Device>

const deviceSeconds = 180 * 24 * 60 * 60
const namesAtMost = 20
const context = 'known device'

type CookieOptions = { encryption: Encryption; isSecure: boolean }

const cookieName = (isSecure: boolean) => `${isSecure ? '__Host-' : ''}tillbridge-device`
const hashOfName = (name: string) => hashSecret(nameKey(name)).slice(0, 16)

/** The browser's id if this person has signed in there before; its wrong passwords are counted by themselves. */
export function knownDevice(
  request: FastifyRequest,
  name: string,
  options: CookieOptions,
): string | undefined {
  const device = deviceOf(request, options)
  return device?.names.includes(hashOfName(name)) ? device.id : undefined
}

/** By which a browser is known from now on for this person too. */
export function deviceCookie(
  request: FastifyRequest,
  name: string,
  options: CookieOptions,
): Cookie {
  const { encryption, isSecure } = options
  const { id, names } = deviceOf(request, options) ?? { id: randomUUID(), names: [] }
  const own = hashOfName(name)
  const kept = [own, ...names.filter((one) => one !== own)].slice(0, namesAtMost)
  const value = encryption.encrypt(JSON.stringify({ id, names: kept } satisfies Device), context)
  return {
    name: cookieName(isSecure),
    value,
    options: { ...ofPages(isSecure), maxAge: deviceSeconds },
  }
}

function deviceOf(
  { cookies }: FastifyRequest,
  { encryption, isSecure }: CookieOptions,
): Device | undefined {
  const value = cookies[cookieName(isSecure)]
  if (value === undefined) return undefined
  try {
    return Device.parse(JSON.parse(encryption.decrypt(value, context)))
  } catch {
    // Altered, or of an encryption key that is no more: as a new browser.
    return undefined
  }
}
