import { test } from 'vitest'
import { expectNoDifference } from './seeds.ts'

// 25 schedules; this seed once found a bug. `npm run faults` plays more.
test('T32: schedules of faults, cashiers and buyers end without a difference from the provider', {
  tags: ['long'],
}, async () => {
  await expectNoDifference(['503'])
})
