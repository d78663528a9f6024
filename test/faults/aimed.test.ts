import { test } from 'vitest'
import { expectBooksAgree } from './seeds.ts'

// A file of its own, so that another worker takes it. Each seed has every kind at least once.
test('schedules that aim at one moment each end with the provider’s books and ours equal', async () => {
  await expectBooksAgree(['a1', 'a2'])
}, 600_000)
