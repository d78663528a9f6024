import { test } from 'vitest'
import { expectNoDifference } from './seeds.ts'

// A file of its own, so that another worker takes it. The seed has each scenario at least once; `npm run faults` plays more.
test('the schedule of each scenario ends without a difference from the provider', {
  tags: ['long'],
}, async () => {
  await expectNoDifference(['a1'])
})
