import { expect, test } from 'vitest'
import { type Arrival, Ledger } from './ledger.ts'
import { SourceHistory } from './source-history.ts'

const flow = (withDeletes = true) => {
  const sourceHistory = new SourceHistory()
  const ledger = new Ledger(sourceHistory, { withDeletes })
  const upsert = (rev: number, options: Partial<Arrival> & { text?: string } = {}): Arrival => ({
    pk: 'a',
    kind: 'upsert',
    body: { id: 'a', rev, text: options.text ?? `text ${rev}` },
    address: 'PUT /a',
    key: options.key ?? `key of ${rev}`,
  })
  const removal: Arrival = {
    pk: 'a',
    kind: 'delete',
    body: undefined,
    address: 'DELETE /a',
    key: 'key of the delete',
  }
  const deliver = (arrival: Arrival) => {
    ledger.arrived(arrival)
    ledger.applied(arrival)
    ledger.acknowledged(arrival)
  }
  return { sourceHistory, ledger, upsert, removal, deliver }
}

test('correct deliveries are no violations, also repeated requests and skipped revisions', () => {
  const { sourceHistory, ledger, upsert, removal, deliver } = flow()
  sourceHistory.put('a', 'text 1')
  sourceHistory.put('a', 'text 2')
  sourceHistory.put('a', 'text 3')
  ledger.arrived(upsert(1))
  deliver(upsert(1))
  deliver(upsert(3))
  deliver(upsert(3))
  sourceHistory.remove('a')
  deliver(removal)
  deliver(removal)
  sourceHistory.put('a', 'text 5')
  deliver(upsert(5))
  expect(ledger.violations).toEqual([])
  expect(ledger.differences()).toEqual([])
  expect(ledger.counts).toEqual({ arrivals: 7, acknowledged: 6, resent: 3, overtaken: 0 })
})

test('an older revision after a newer one, or after a removal, is a violation', () => {
  const { sourceHistory, ledger, upsert, removal, deliver } = flow()
  sourceHistory.put('a', 'text 1')
  sourceHistory.put('a', 'text 2')
  deliver(upsert(2))
  deliver(upsert(1))
  sourceHistory.remove('a')
  deliver(removal)
  deliver(upsert(2))
  expect(ledger.violations).toEqual([
    'a: revision 1 came after revision 2',
    'a: revision 2 came after the removal at 3',
  ])
})

test('a delete without a removal at the source is a violation', () => {
  const { sourceHistory, ledger, upsert, removal, deliver } = flow()
  sourceHistory.put('a', 'text 1')
  sourceHistory.remove('a')
  sourceHistory.put('a', 'text 3')
  deliver(upsert(3))
  deliver(removal)
  expect(ledger.violations).toEqual(['a: deleted although the source kept it since 3'])
  expect(ledger.differences()).toEqual(['a: the source has revision 3, the target nothing'])
})

test('another key for the same upsert, one key for two contents and no key are violations', () => {
  const { sourceHistory, ledger, upsert, deliver } = flow()
  sourceHistory.put('a', 'text 1')
  sourceHistory.put('a', 'text 2')
  deliver(upsert(1))
  deliver(upsert(1, { key: 'other' }))
  deliver(upsert(2, { key: 'other' }))
  deliver(upsert(2, { key: '' }))
  expect(ledger.violations).toEqual([
    expect.stringContaining('the same content under another key'),
    expect.stringContaining('one key for'),
    'a: a request without a key',
    expect.stringContaining('the same content under another key'),
  ])
})

test('invented content is a violation; missing, unacknowledged and undeleted items are differences', () => {
  const { sourceHistory, ledger, upsert, deliver } = flow()
  sourceHistory.put('a', 'text 1')
  sourceHistory.put('b', 'text 2')
  deliver(upsert(1, { text: 'invented' }))
  expect(ledger.violations).toEqual([expect.stringContaining('the source never had')])
  sourceHistory.put('a', 'text 3')
  ledger.arrived(upsert(3))
  ledger.applied(upsert(3))
  expect(ledger.differences()).toEqual([
    'a: revision 3 was never acknowledged',
    'b: the source has revision 2, the target nothing',
  ])
  sourceHistory.remove('a')
  sourceHistory.remove('b')
  expect(ledger.differences()).toEqual(['a: removed from the source, still at the target'])
})

test('a delete stands for the first removal whose delete has not arrived', () => {
  const { sourceHistory, ledger, upsert, removal, deliver } = flow()
  sourceHistory.put('a', 'text 1')
  deliver(upsert(1))
  sourceHistory.remove('a')
  sourceHistory.put('a', 'text 3')
  sourceHistory.remove('a')
  expect(ledger.removalOfNextDelete('a')).toBe(2)
  deliver(removal)
  expect(ledger.removalOfNextDelete('a')).toBe(2)
  sourceHistory.put('a', 'text 5')
  deliver(upsert(5))
  sourceHistory.remove('a')
  expect(ledger.removalOfNextDelete('a')).toBe(6)
})

test('only an arrival that is new to the target counts as an advance', () => {
  const { sourceHistory, ledger, upsert, removal, deliver } = flow()
  sourceHistory.put('a', 'text 1')
  for (let time = 0; time < 3; time += 1) deliver(upsert(1))
  expect(ledger.advances).toBe(1)
  sourceHistory.remove('a')
  for (let time = 0; time < 3; time += 1) deliver(removal)
  expect(ledger.advances).toBe(2)
})
