import { test } from 'vitest'
import { expectBooksAgree } from './seeds.ts'

// A file of its own, so that the other worker takes it.
test('150 more schedules end with the provider’s books and ours equal', async () => {
  await expectBooksAgree([7, 8, 9, 10, 11, 503])
}, 600_000)
