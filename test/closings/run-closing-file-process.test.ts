import { expect, test } from 'vitest'
import type { ClosingRow } from '../../src/repositories/closings/closing-queries.ts'
import { makeClosingFile } from '../../src/routes/closings/run-closing-file-process.ts'

const closing = {
  client: 'tienda',
  caja_id: null,
  sucursal_id: 'S1',
  business_day: '2026-11-25',
  from_at: new Date('2026-11-25T03:00:00Z'),
  to_at: new Date('2026-11-26T03:00:00Z'),
  time_zone: 'America/Argentina/Buenos_Aires',
  state: 'open',
  result: null,
  signed_at: null,
  totals: null,
} as unknown as ClosingRow
const names = { storeName: 'Centro', boxNames: new Map(), signedBy: null }

test('a process that ends without a file rejects that file only, and the next file is made', async () => {
  const broken = { ...closing, business_day: undefined } as unknown as ClosingRow
  const [failed, made] = await Promise.allSettled(
    [broken, closing].map((one) =>
      makeClosingFile({
        ending: 'xlsx',
        file: { closing: one, names, charges: [] },
        language: 'es',
      }),
    ),
  )
  expect(failed).toMatchObject({
    status: 'rejected',
    reason: { message: expect.stringContaining('ended: 1') },
  })
  expect(made).toMatchObject({ status: 'fulfilled', value: expect.any(Uint8Array) })
})
