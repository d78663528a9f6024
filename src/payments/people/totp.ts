import { Secret, TOTP } from 'otpauth'
import encodeQR from 'qr'

const periodMs = 30_000
/** Steps before and after the present one whose codes count too: clocks of phones differ. */
const window = 1

/** A new secret for an authenticator app, in Base32. */
export function newTotpSecret(): string {
  return new Secret({ size: 20 }).base32
}

/** The time step of the code; undefined for a wrong one. The caller accepts each step once. */
export function stepOfCode(secret: string, code: string, now: Date): number | undefined {
  const totp = new TOTP({ secret: Secret.fromBase32(secret) })
  const delta = totp.validate({ token: code.replaceAll(' ', ''), timestamp: now.getTime(), window })
  return delta === null ? undefined : Math.floor(now.getTime() / periodMs) + delta
}

/** The address that an authenticator app reads, and its QR code: its width in modules, and their outline as the path of an SVG. */
export function totpAddress(
  secret: string,
  label: string,
): { uri: string; qr: { size: number; path: string } } {
  const uri = new TOTP({
    issuer: 'tillbridge',
    label,
    secret: Secret.fromBase32(secret),
  }).toString()
  const rows = encodeQR(uri, 'raw', { ecc: 'medium' })
  const path = rows.flatMap((row, y) =>
    row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])),
  )
  return { uri, qr: { size: rows.length, path: path.join('') } }
}
