import { expect, test } from 'vitest'
import type { ClosingFile } from '../../src/routes/closings/closing-file.ts'
import { makeClosingFile } from '../../src/routes/closings/run-closing-file-process.ts'
import { longestTurn, promisedMs } from '../support/longest-turn.ts'

/** The files of a large closing are made without delaying other requests. */

const at = new Date('2026-11-26T15:00:00Z')
const charges: ClosingFile['charges'] = Array.from({ length: 10_000 }, (_none, index) => ({
  at,
  cajaId: 'CAJA-1',
  reference: `FAC-${index}`,
  orderId: `order ${index}`,
  paymentId: String(index),
  method: 'credit_card',
  installments: 1,
  here: { cents: 1_803_440, refundedCents: 0 },
  there: { cents: 1_803_440, refundedCents: 0, netCents: 1_700_000 },
  line: null,
}))
const file = {
  closing: {
    client: 'acme',
    number: 1,
    caja_id: 'CAJA-1',
    sucursal_id: 'SUC-1',
    business_day: '2026-11-26',
    time_zone: 'America/Argentina/Buenos_Aires',
    from_at: at,
    to_at: at,
    state: 'agreed',
    result: null,
    signed_at: null,
    totals: null,
  },
  names: { storeName: 'Centro', boxNames: new Map([['CAJA-1', 'Caja 1']]), signedBy: null },
  charges,
} as unknown as ClosingFile

test.each(['csv', 'xlsx'] as const)(
  'making a %s of 10,000 charges blocks the event loop for a short time only',
  { timeout: 60_000, tags: ['long'] },
  async (ending) => {
    const { ms, said } = await longestTurn(async () => {
      const made = await makeClosingFile({ ending, file, language: 'es' })
      return String(made.length)
    })
    expect(Number(said)).toBeGreaterThan(100_000)
    expect(ms).toBeLessThan(promisedMs)
  },
)
