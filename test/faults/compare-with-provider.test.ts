import { expect, test } from 'vitest'
import { couldKnowOfClose } from './compare-with-provider.ts'
import { wasReportedClosed } from './sale.ts'
import type { SimulatedTill } from './simulated-till.ts'

const notReported: Pick<SimulatedTill, 'reportedClosed'> = { reportedClosed: new Set() }
const reported: Pick<SimulatedTill, 'reportedClosed'> = { reportedClosed: new Set(['order-1']) }

test('the comparison demands paid_after_close only where the service had recorded or reported the close', () => {
  const recorded = [{ to_status: 'created' }, { to_status: 'canceled' }]
  const unrecorded = [{ to_status: 'created' }, { to_status: 'processed' }]
  expect(couldKnowOfClose(notReported, 'order-1', recorded)).toBe(true)
  expect(couldKnowOfClose(reported, 'order-1', unrecorded)).toBe(true)
  expect(couldKnowOfClose(notReported, 'order-1', unrecorded)).toBe(false)
})

test('an order counts as reported closed after a 200 to its cancel or an answer with not_charged', () => {
  const canceled = {
    reportedOutcomes: [],
    sales: [{ canceled: new Set(['order-1']) }] as SimulatedTill['sales'],
  }
  const denied = {
    reportedOutcomes: [
      { orderId: 'order-1', outcome: 'not_charged' },
    ] as SimulatedTill['reportedOutcomes'],
    sales: [],
  }
  const charged = {
    reportedOutcomes: [
      { orderId: 'order-1', outcome: 'charged' },
    ] as SimulatedTill['reportedOutcomes'],
    sales: [],
  }
  for (const till of [canceled, denied]) {
    expect(wasReportedClosed(till, 'order-1')).toBe(true)
    expect(wasReportedClosed(till, 'order-2')).toBe(false)
  }
  expect(wasReportedClosed(charged, 'order-1')).toBe(false)
})
