import { expect, test } from 'vitest'
import { type Arrival, Ledger } from './ledger.ts'
import { Truth } from './truth.ts'

const flow = (withDeletes = true) => {
  const truth = new Truth()
  const ledger = new Ledger(truth, { withDeletes })
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
  return { truth, ledger, upsert, removal, deliver }
}

test('a flow that keeps its promises is not blamed, re-sends and skipped revisions included', () => {
  const { truth, ledger, upsert, removal, deliver } = flow()
  truth.put('a', 'text 1')
  truth.put('a', 'text 2')
  truth.put('a', 'text 3')
  ledger.arrived(upsert(1))
  deliver(upsert(1))
  deliver(upsert(3))
  deliver(upsert(3))
  truth.remove('a')
  deliver(removal)
  deliver(removal)
  truth.put('a', 'text 5')
  deliver(upsert(5))
  expect(ledger.violations).toEqual([])
  expect(ledger.differences()).toEqual([])
  expect(ledger.counts).toEqual({ arrivals: 7, acknowledged: 6, resent: 3, overtaken: 0 })
})

test('an older revision behind a newer one is a violation, and so is one behind its removal', () => {
  const { truth, ledger, upsert, removal, deliver } = flow()
  truth.put('a', 'text 1')
  truth.put('a', 'text 2')
  deliver(upsert(2))
  deliver(upsert(1))
  truth.remove('a')
  deliver(removal)
  deliver(upsert(2))
  expect(ledger.violations).toEqual([
    'a: revision 1 came after revision 2',
    'a: revision 2 came after the removal at 3',
  ])
})

test('a delete that nothing at the source stands for is a violation', () => {
  const { truth, ledger, upsert, removal, deliver } = flow()
  truth.put('a', 'text 1')
  truth.remove('a')
  truth.put('a', 'text 3')
  deliver(upsert(3))
  deliver(removal)
  expect(ledger.violations).toEqual(['a: deleted although the source kept it since 3'])
  expect(ledger.differences()).toEqual(['a: the source has revision 3, the target nothing'])
})

test('another key for the same upsert, one key for two contents and no key are violations', () => {
  const { truth, ledger, upsert, deliver } = flow()
  truth.put('a', 'text 1')
  truth.put('a', 'text 2')
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

test('what the source never had, what never arrived, what nobody said yes to and what stays behind', () => {
  const { truth, ledger, upsert, deliver } = flow()
  truth.put('a', 'text 1')
  truth.put('b', 'text 2')
  deliver(upsert(1, { text: 'invented' }))
  expect(ledger.violations).toEqual([expect.stringContaining('the source never had')])
  truth.put('a', 'text 3')
  ledger.arrived(upsert(3))
  ledger.applied(upsert(3))
  expect(ledger.differences()).toEqual([
    'a: revision 3 was never acknowledged',
    'b: the source has revision 2, the target nothing',
  ])
  truth.remove('a')
  truth.remove('b')
  expect(ledger.differences()).toEqual(['a: removed from the source, still at the target'])
})

test('a delete may stand for an earlier removal than the last: the target was not told of that one', () => {
  const { truth, ledger, upsert, removal, deliver } = flow()
  truth.put('a', 'text 1')
  deliver(upsert(1))
  truth.remove('a')
  truth.put('a', 'text 3')
  truth.remove('a')
  expect(ledger.removalTold('a')).toBe(2)
  deliver(removal)
  expect(ledger.removalTold('a')).toBe(2)
  truth.put('a', 'text 5')
  deliver(upsert(5))
  truth.remove('a')
  expect(ledger.removalTold('a')).toBe(6)
})

test('what is new to the target is an advance, what comes again is none', () => {
  const { truth, ledger, upsert, removal, deliver } = flow()
  truth.put('a', 'text 1')
  for (let time = 0; time < 3; time += 1) deliver(upsert(1))
  expect(ledger.advances).toBe(1)
  truth.remove('a')
  for (let time = 0; time < 3; time += 1) deliver(removal)
  expect(ledger.advances).toBe(2)
})
