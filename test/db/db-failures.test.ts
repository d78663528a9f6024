import { expect, test } from 'vitest'
import {
  constraintOf,
  DatabaseUnavailableError,
  endsConnection,
  isDatabaseUnavailable,
  isRepeatable,
} from '../../src/db/database-failures.ts'

const withCode = (code: string, more = {}) => Object.assign(new Error('text'), { code, ...more })

test.each([
  ['08006', true],
  ['53100', true],
  ['53300', true],
  ['57P01', true],
  ['57P03', true],
  ['25006', true],
  ['58030', true],
  ['ECONNREFUSED', true],
  ['ETIMEDOUT', true],
  ['23505', false],
  ['22P02', false],
  ['42P01', false],
  ['25P02', false],
  ['ERR_INVALID_ARG_TYPE', false],
])('%s counts as an unavailable database: %s', (code, unavailable) => {
  expect(isDatabaseUnavailable(withCode(code))).toBe(unavailable)
})

test('the cause of an error counts, its text never does', () => {
  expect(isDatabaseUnavailable(new Error('outer', { cause: withCode('57P01') }))).toBe(true)
  expect(isDatabaseUnavailable(new DatabaseUnavailableError('gone'))).toBe(true)
  expect(isDatabaseUnavailable(new Error('Connection terminated unexpectedly'))).toBe(false)
  expect(isDatabaseUnavailable({ code: '57P01' })).toBe(false)
  expect(isDatabaseUnavailable(undefined)).toBe(false)
})

test('a cause that is its own cause ends', () => {
  const error = new Error('round')
  error.cause = error
  expect(isDatabaseUnavailable(error)).toBe(false)
})

test('the constraint is named for violations only', () => {
  expect(constraintOf(withCode('23505', { constraint: 'orders_pkey' }))).toBe('orders_pkey')
  expect(constraintOf(withCode('23503', { constraint: 'fk' }))).toBe('fk')
  expect(constraintOf(withCode('22P02', { constraint: 'orders_pkey' }))).toBeUndefined()
  expect(constraintOf(withCode('23505'))).toBeUndefined()
})

test('an error that ends the connection closes it, and one that ends a statement does not', () => {
  const ends = (codes: string[]) => codes.map((code) => endsConnection(withCode(code)))
  expect(new Set(ends(['57P01', '57P02', '57P05', '25P03', '25006', '08006']))).toEqual(
    new Set([true]),
  )
  expect(new Set(ends(['57014', '55P03', '40001', '23505', '53100', 'ECONNRESET']))).toEqual(
    new Set([false]),
  )
  expect(endsConnection({ code: '57P01' })).toBe(false)
})

test('only collisions are repeated', () => {
  expect(['40001', '40P01', '57P01', '23505'].map((code) => isRepeatable(withCode(code)))).toEqual([
    true,
    true,
    false,
    false,
  ])
})
