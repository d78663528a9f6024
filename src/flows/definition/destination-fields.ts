import { z } from 'zod'
import { column, duration, findingMessage, jsonata, name, whole } from './value-schemas.ts'

export const fieldTypes = ['text', 'integer', 'decimal', 'decimalComma', 'boolean', 'date'] as const

const fields = () =>
  z.record(
    column(),
    z.union(
      [
        column(),
        z.strictObject({
          from: column(),
          type: z.enum(fieldTypes).optional(),
          optional: z.boolean().optional().describe('a record without the field gives null'),
        }),
      ],
      findingMessage({ code: 'MUST_BE_FIELD_RULE' }),
    ),
  )

const rateLimit = () =>
  z
    .strictObject({
      max: whole(1, 1_000_000).meta({ description: 'number of attempts', examples: [5] }),
      per: duration('1s', '24h').meta({ description: 'the time, `1s` to `24h`', examples: ['1s'] }),
    })
    .transform(({ max, per }) => ({ max, perMs: per }))
    .optional()

const retryShape = () => ({
  attempts: whole(1, 50)
    .prefault(5)
    .meta({ description: 'attempts before a delivery fails permanently', examples: [8] }),
  initial: duration('100ms', '24h')
    .prefault('5s')
    .meta({ description: 'pause before the second attempt', examples: ['5s'] }),
  factor: z
    .number()
    .min(1)
    .max(10)
    .prefault(2)
    .meta({ description: 'each pause is that much longer than the one before', examples: [2] }),
  max: duration('100ms', '24h')
    .prefault('10m')
    .meta({ description: 'longest pause', examples: ['10m'] }),
  jitter: z
    .number()
    .min(0)
    .max(1)
    .prefault(0.2)
    .meta({ description: 'random part of the pause', examples: [0.2] }),
})

const inMs = <T extends { initial: number; max: number }>({ initial, max, ...rest }: T) => ({
  ...rest,
  initialMs: initial,
  maxMs: max,
})

const retryMeaning = {
  description: 'pauses and number of attempts',
  examples: [{ attempts: 8, initial: '5s' }],
}

export const retry = () =>
  z.strictObject(retryShape()).transform(inMs).prefault({}).meta(retryMeaning)

export const httpRetry = () =>
  z
    .strictObject({
      ...retryShape(),
      retryStatus: z
        .array(whole(100, 599))
        .optional()
        .meta({
          description:
            'statuses worth another attempt; without it 408, 409, 423, 425, 429 and all from 500',
          examples: [[429, 503]],
        }),
      respectRetryAfter: z
        .boolean()
        .prefault(true)
        .meta({
          description:
            '`Retry-After` counts, up to one hour: that of a 429 for its item, that of a 503 for all items',
          examples: [true],
        }),
    })
    .transform(inMs)
    .prefault({})
    .meta(retryMeaning)

const breaker = () =>
  z
    .union(
      [
        z.literal(false),
        z
          .strictObject({
            failures: whole(1, 1_000_000)
              .prefault(20)
              .meta({
                description: 'number of outages: no answer, 5xx, or 429 to every request',
                examples: [20],
              }),
            percent: whole(1, 100)
              .prefault(50)
              .meta({ description: 'their share of the last attempts', examples: [50] }),
            within: duration('1s', '24h')
              .prefault('1m')
              .meta({
                description:
                  "the time in which they happen, in addition to the attempts' own time, or twice what the `rateLimit` needs. Waiting uses no attempt",
                examples: ['1m'],
              }),
            openFor: duration('1s', '24h')
              .prefault('2m')
              .meta({
                description:
                  'how long sending stops at most until one attempt tests the destination: a second at first, then an eighth of the time that it has been failing',
                examples: ['2m'],
              }),
          })
          .transform(({ failures, percent, within, openFor }) => ({
            failures,
            percent,
            withinMs: within,
            openForMs: openFor,
          })),
      ],
      findingMessage({ code: 'MUST_BE_BREAKER' }),
    )
    .prefault({})

export const common = (concurrency: number) => ({
  name: name().meta({
    description:
      'the name in the API (`adapter`); not `source`. Under another name it begins without a record of what it got',
    examples: ['sucursales'],
  }),
  map: jsonata()
    .optional()
    .meta({
      description:
        'JSONata that makes the body of the item. Without `map` and `fields` the body is the item itself',
      examples: ['{ "sku": codigo, "precio": $number(precio) }'],
    }),
  fields: fields()
    .optional()
    .meta({
      description:
        'name there: name in the item, or `{ from, type, optional }`, instead of `map`. Types: `text`, `integer`, `decimal`, `decimalComma`, `boolean`, `date`; without one the value stays as it is',
      examples: [{ external_id: 'caja', name: 'caja_nombre', store_external_id: 'codigo' }],
    }),
  filter: jsonata()
    .optional()
    .meta({
      description:
        'JSONata over the item: an item for which it is not true shows as skipped. One that was sent before stays there and shows as still there; its delete still goes',
      examples: ['publicar = "S"'],
    }),
  concurrency: whole(1, 64)
    .prefault(concurrency)
    .meta({ description: 'items (of a database: statements) at a time', examples: [1] }),
  rateLimit: rateLimit().meta({
    description:
      'the most attempts (of a database: statements) in a time. An attempt that looks for its item first makes two requests',
    examples: [{ max: 5, per: '1s' }],
  }),
  breaker: breaker().meta({
    description: 'when sending stops for a while because a destination fails; `false`: never',
    examples: [false],
  }),
  timeout: duration('100ms', '1h')
    .prefault('30s')
    .meta({ description: 'of one attempt, `100ms` to `1h`', examples: ['5m'] }),
})

export const timeoutMs = <T extends { timeout: number }>({ timeout, ...rest }: T) => ({
  ...rest,
  timeoutMs: timeout,
})
