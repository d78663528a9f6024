import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { apiError } from './errors.ts'
import type { Change, Remembered } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { isRecord } from './validation-errors.ts'

/** The provider remembers a key for 24 hours (provider facts 7). A test can shorten this. */
export const keyMemoryMs = 24 * 3_600_000

export type KeyUse = {
  key: string
  /** The first success with this key and body, if any. */
  first: Remembered | undefined
  /** To write in the same line as the effect, so that both are stored or neither. */
  remember: (status: number, resourceId: string, body?: unknown) => Change
}

/**
 * Finds a key. Keys belong to a user, method and path; the same key elsewhere is another key. Only successes are
 * remembered. Throws 400 `empty_required_header`, 400 `invalid_idempotency_key_length`, and `reused` for another body.
 */
export function useKey(
  ctx: Context,
  request: FastifyRequest,
  userId: number,
  options: { maxLength: number; missing: Error; tooLong: Error; reused: Error },
): KeyUse {
  const header = request.headers['x-idempotency-key']
  const key = (Array.isArray(header) ? header.join(', ') : (header ?? '')).trim()
  if (key === '') throw options.missing
  if (key.length > options.maxLength) throw options.tooLong
  const path = request.url.split('?')[0] ?? ''
  const id = hash(`${userId}\n${request.method} ${path}\n${key}`)
  const fingerprint = hash(JSON.stringify(canonical(request.body ?? null)))
  const now = ctx.nowMs()
  const found = ctx.state.tables.memory.get(id)
  const first = found !== undefined && now - found.at < ctx.keyMemoryMs ? found : undefined
  if (first !== undefined && first.fingerprint !== fingerprint) throw options.reused
  return {
    key,
    first,
    remember: (status, resourceId, body = null) => ({
      memory: { [id]: { fingerprint, at: now, status, resourceId, body } },
    }),
  }
}

/** The rules of the Orders API: up to 128 characters, 409 for another body (provider facts 2.1). */
export function useOrderKey(ctx: Context, request: FastifyRequest, userId: number): KeyUse {
  return useKey(ctx, request, userId, {
    maxLength: 128,
    missing: apiError(400, 'empty_required_header', 'The header X-Idempotency-Key is required.'),
    tooLong: apiError(
      400,
      'invalid_idempotency_key_length',
      'The header X-Idempotency-Key must have from 1 to 128 characters.',
    ),
    reused: apiError(
      409,
      'idempotency_key_already_used',
      'The idempotency key was already used with another request.',
    ),
  })
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** The same content with its keys in another order is the same body. */
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical)
  if (!isRecord(value)) return value
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => [key, canonical(member)])
}
