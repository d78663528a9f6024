import { expect, test } from 'vitest'
import type { Lane } from './lane.ts'
import { wasToldClosed } from './sale.ts'
import { couldKnowOfClose } from './verdict.ts'

const nobodyTold: Pick<Lane, 'toldClosed'> = { toldClosed: new Set() }
const told: Pick<Lane, 'toldClosed'> = { toldClosed: new Set(['order-1']) }

test('late money must be flagged where the service had seen or told the close, and not where it could not know', () => {
  const seen = [{ to_status: 'created' }, { to_status: 'canceled' }]
  const unseen = [{ to_status: 'created' }, { to_status: 'processed' }]
  expect(couldKnowOfClose(nobodyTold, 'order-1', seen)).toBe(true)
  expect(couldKnowOfClose(told, 'order-1', unseen)).toBe(true)
  expect(couldKnowOfClose(nobodyTold, 'order-1', unseen)).toBe(false)
})

test('a till believes in the close when its cancel was confirmed or an answer said not_charged, of this order only', () => {
  const canceled = { claims: [], sales: [{ canceled: new Set(['order-1']) }] as Lane['sales'] }
  const denied = {
    claims: [{ orderId: 'order-1', outcome: 'not_charged' }] as Lane['claims'],
    sales: [],
  }
  const charged = {
    claims: [{ orderId: 'order-1', outcome: 'charged' }] as Lane['claims'],
    sales: [],
  }
  for (const lane of [canceled, denied]) {
    expect(wasToldClosed(lane, 'order-1')).toBe(true)
    expect(wasToldClosed(lane, 'order-2')).toBe(false)
  }
  expect(wasToldClosed(charged, 'order-1')).toBe(false)
})
