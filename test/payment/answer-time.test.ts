import { expect, test } from 'vitest'
import { AppError } from '../../src/errors.ts'
import { inTime } from '../../src/payments/answer-time.ts'
import type { Actor } from '../../src/payments/deps.ts'

/** Somebody who has waited for so long already. */
function waiting(forMs: number): Actor {
  return { ipAddress: null, startedAt: new Date(), startedMs: performance.now() - forMs }
}

const late = () => new AppError('PROVIDER_TIMEOUT', { extra: { outcome: 'unknown' } })

test('a till has its answer within 25 s of its request, however long the work still takes', async () => {
  const work = Promise.withResolvers<string>()
  const answered = inTime(waiting(24_450), work.promise, late)
  await expect(answered).rejects.toMatchObject({
    code: 'PROVIDER_TIMEOUT',
    extra: { outcome: 'unknown' },
  })
  // What becomes of the work afterwards is no unhandled failure.
  work.reject(new Error('later'))
})

test('work that ends in time is answered as it ended', async () => {
  expect(await inTime(waiting(0), Promise.resolve('done'), late)).toBe('done')
  const failed = inTime(waiting(0), Promise.reject(new Error('failed')), late)
  await expect(failed).rejects.toThrow('failed')
})
