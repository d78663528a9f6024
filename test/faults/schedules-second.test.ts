import { test } from 'vitest'
import { expectBooksAgree } from './seeds.ts'

// A file of its own, so that the other worker takes it.
test('50 more schedules end with the provider’s books and ours equal', async () => {
  await expectBooksAgree([3, 4])
}, 300_000)
