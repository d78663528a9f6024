import { test } from 'vitest'
import { expectBooksAgree } from './seeds.ts'

// A file of its own, so that the other worker takes it.
test('100 more schedules end with the provider’s books and ours equal', async () => {
  await expectBooksAgree([5, 6, 7, 8])
}, 300_000)
