import { test } from 'vitest'
import { expectBooksAgree } from './seeds.ts'

// A file of its own, so that another worker takes it. A seed has every kind at least once; `npm run faults` plays more.
test('schedules that aim at one moment each end with the provider’s books and ours equal', {
  tags: ['long'],
  timeout: 600_000,
}, async () => {
  await expectBooksAgree(['a1'])
})
