import { expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { FlowReason, FlowTimestamp, type Model, toWire } from '../../src/flows/api/api-model.ts'

const schema = z.object({
  name: z.string(),
  seen_at: FlowTimestamp,
  next_attempt_at: FlowTimestamp.nullable().describe('null when it is due'),
  why: FlowReason,
  last_error_why: FlowReason.optional(),
  rows: z.array(z.object({ rows_read: z.number() })),
  content: z.record(z.string(), z.unknown()).nullable(),
  runLimit: z.number().optional(),
})

const at = new Date('2026-11-27T10:00:00.000Z')
const why = { code: 'TOO_MANY_RECORDS', data: { most: 500 } }

test('an answer has the field names of its schema, times as text, and reasons in the reader’s language', () => {
  const model = {
    ...{ name: 'precios', seenAt: at, nextAttemptAt: null, why, lastErrorWhy: null },
    rows: [{ rowsRead: 3, isInternal: true }],
    // Names and values of the user stay as they are.
    content: { rowsRead: 1, why: { code: 'MINE' }, seenAt: 'never' },
    internal: 1,
  }
  const shown = toWire(schema, model, 'es')
  expect(shown).toEqual({
    name: 'precios',
    seen_at: '2026-11-27T10:00:00.000Z',
    next_attempt_at: null,
    why: { ...why, message: expect.stringContaining('500') },
    last_error_why: null,
    rows: [{ rows_read: 3 }],
    content: { rowsRead: 1, why: { code: 'MINE' }, seenAt: 'never' },
  })
  expect(schema.parse(shown)).toEqual(shown)
  expect(shown.why?.message).not.toBe(toWire(schema, model, 'en').why?.message)
})

test('the type of a model follows from its schema', () => {
  type Row = Model<typeof schema>
  expectTypeOf<Row['seenAt']>().toEqualTypeOf<Date>()
  expectTypeOf<Row['nextAttemptAt']>().toEqualTypeOf<Date | null>()
  expectTypeOf<Row['why']>().toEqualTypeOf<{
    code: string
    data?: { [name: string]: unknown } | undefined
  } | null>()
  expectTypeOf<Row['rows']>().toEqualTypeOf<{ rowsRead: number }[]>()
})
