import { randomBytes, type ScryptOptions, scrypt } from 'node:crypto'
import { sameSecret } from '../../domain/secret-hash.ts'
import { createSemaphore } from '../../domain/semaphore.ts'
import { AppError } from '../../errors/app-error.ts'

/** `log2N`, `r` and `p` of scrypt (RFC 7914): one check takes 128 * r * 2^log2N bytes. */
export type PasswordCost = { log2N: number; r: number; p: number }

// Node's own scrypt: argon2 would be a native program for each platform, and OWASP accepts scrypt with these costs. Each check takes
// 32 MiB and about 0.1 s of a thread of the pool, never of the event loop.
const usualCost: PasswordCost = { log2N: 15, r: 8, p: 3 }
const hashBytes = 32
const atOnce = 2
/** More requests than that are a flood: they would wait longer than a person does. */
const waitingAtMost = 10

export const shortestPassword = 12
export const longestPassword = 200

/** Makes and checks the stored form of passwords. Both reject with RATE_LIMITED while too many checks wait. */
export type Passwords = {
  /** A password as it is stored: `scrypt$15$8$3$<salt>$<hash>`. */
  hash(password: string): Promise<string>
  /**
   * Whether this is the password. Without a stored one it takes as long and returns false, so that time does not show which names
   * exist.
   */
  matches(password: string, stored: string | null): Promise<boolean>
}

/** `cost` is that of new passwords; stored ones name their own. At most two checks run at a time. */
export function createPasswords(cost: PasswordCost = usualCost): Passwords {
  const format = (salt: Buffer, hash: string) =>
    `scrypt$${cost.log2N}$${cost.r}$${cost.p}$${salt.toString('base64url')}$${hash}`
  const matchesNothing = format(Buffer.alloc(16), 'A'.repeat(43))
  const checks = createSemaphore(atOnce)

  async function derive(password: string, salt: Buffer, of: PasswordCost): Promise<string> {
    if (checks.waiting() >= waitingAtMost) {
      throw new AppError('RATE_LIMITED', { extra: { retryAfterSeconds: 2 } })
    }
    const release = await checks.acquire()
    try {
      return (await scryptOf(password, salt, of)).toString('base64url')
    } finally {
      release()
    }
  }

  return {
    async hash(password) {
      const salt = randomBytes(16)
      return format(salt, await derive(password, salt, cost))
    },
    async matches(password, stored) {
      const [, log2N, r, p, salt = '', hash = ''] = (stored ?? matchesNothing).split('$')
      const of = { log2N: Number(log2N), r: Number(r), p: Number(p) }
      const found = await derive(password, Buffer.from(salt, 'base64url'), of)
      return sameSecret(found, hash) && stored !== null
    },
  }
}

function scryptOf(password: string, salt: Buffer, { log2N, r, p }: PasswordCost): Promise<Buffer> {
  const options: ScryptOptions = { N: 2 ** log2N, r, p, maxmem: 256 * 2 ** log2N * r }
  return new Promise((resolve, reject) =>
    // The same letters typed on another keyboard are the same password.
    scrypt(password.normalize('NFKC'), salt, hashBytes, options, (error, hash) =>
      error ? reject(error) : resolve(hash),
    ),
  )
}
