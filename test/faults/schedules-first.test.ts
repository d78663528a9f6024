import { test } from 'vitest'
import { expectBooksAgree } from './seeds.ts'

test('150 schedules of faults, cashiers and buyers end with the provider’s books and ours equal', async () => {
  await expectBooksAgree([1, 2, 3, 4, 5, 6])
}, 600_000)
