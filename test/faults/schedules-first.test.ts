import { test } from 'vitest'
import { expectBooksAgree } from './seeds.ts'

test('50 schedules of faults, cashiers and buyers end with the provider’s books and ours equal', async () => {
  await expectBooksAgree([1, 2])
}, 300_000)
