import { expect, test } from 'vitest'
import { createPasswords } from '../../src/payments/process/passwords.ts'

const passwords = createPasswords()

/** Checking one of these takes a hundredth of a second of processor time. */
const cheap = createPasswords({ log2N: 13, r: 8, p: 1 })

test('only the same password matches, in any Unicode form', { tags: ['long'] }, async () => {
  const stored = await passwords.hash('canary-Ñandú y café')
  expect(stored).toMatch(/^scrypt\$15\$8\$3\$[\w-]{22}\$[\w-]{43}$/)
  expect(await passwords.matches('canary-Ñandú y café', stored)).toBe(true)
  expect(await passwords.matches('canary-Ñandú y café'.normalize('NFD'), stored)).toBe(true)
  expect(await passwords.matches('canary-ñandú y café', stored)).toBe(false)
  expect(await passwords.matches('', stored)).toBe(false)
  expect(await passwords.hash('canary-Ñandú y café')).not.toBe(stored)
})

test('T59: checking a password of an unknown name takes as much processor time as that of a known one', {
  tags: ['long'],
}, async () => {
  const stored = await cheap.hash('canary-something')
  const costOf = async (of: string | null) => {
    const before = process.cpuUsage()
    expect(await cheap.matches('canary-wrong', of)).toBe(false)
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
  // The first checks get their memory from the system, which takes as long as a check. So the two kinds alternate.
  const costs = { known: [] as number[], unknown: [] as number[] }
  for (let round = 0; round < 5; round += 1) {
    costs.known.push(await costOf(stored))
    costs.unknown.push(await costOf(null))
  }
  const [known, unknown] = [Math.min(...costs.known), Math.min(...costs.unknown)]
  expect(unknown).toBeGreaterThan(known / 2)
  expect(known).toBeGreaterThan(unknown / 2)
})

test('a flood of passwords is refused before it uses all threads and memory', {
  tags: ['long'],
}, async () => {
  const tries = Array.from({ length: 60 }, () => cheap.matches('canary-wrong', null))
  const ended = await Promise.allSettled(tries)
  const refused = ended.filter(({ status }) => status === 'rejected')
  expect(refused.length).toBe(60 - 12)
  expect(await cheap.matches('canary-wrong', null)).toBe(false)
})
