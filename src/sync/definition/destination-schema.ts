import { z } from 'zod'
import { checkDatabase, databaseUrl, driver, filePath, headers, httpUrl } from './addresses.ts'
import type { FlowContext } from './context.ts'
import { column, columns, duration, jsonata, name, whole } from './fields.ts'
import { clientName } from './source-schema.ts'

export const fieldTypes = ['text', 'integer', 'decimal', 'decimalComma', 'boolean', 'date'] as const

const fields = () =>
  z
    .record(
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
        'must be the name of a field or { from: name, type: type }',
      ),
    )
    .describe('name in the destination: name in the item, or { from, type }')

const rateLimit = () =>
  z
    .strictObject({ max: whole(1, 1_000_000), per: duration('1s', '24h') })
    .transform(({ max, per }) => ({ max, perMs: per }))
    .optional()

const retryShape = () => ({
  attempts: whole(1, 50).prefault(5),
  initial: duration('100ms', '24h').prefault('5s').describe('pause before the second attempt'),
  factor: z.number().min(1).max(10).prefault(2),
  max: duration('100ms', '24h').prefault('10m').describe('longest pause'),
  jitter: z
    .number()
    .min(0)
    .max(1)
    .prefault(0.2)
    .describe('part of the pause that is left to chance'),
})

const inMs = <T extends { initial: number; max: number }>({ initial, max, ...rest }: T) => ({
  ...rest,
  initialMs: initial,
  maxMs: max,
})

const retry = () => z.strictObject(retryShape()).transform(inMs).prefault({})

const httpRetry = () =>
  z
    .strictObject({
      ...retryShape(),
      retryStatus: z
        .array(whole(100, 599))
        .optional()
        .describe('statuses worth another attempt; without it 408, 425, 429 and all from 500'),
      respectRetryAfter: z.boolean().prefault(true),
    })
    .transform(inMs)
    .prefault({})

const breaker = () =>
  z
    .union(
      [
        z.literal(false),
        z
          .strictObject({
            failures: whole(1, 1_000_000).prefault(20),
            within: duration('1s', '24h').prefault('1m'),
            openFor: duration('1s', '24h').prefault('2m'),
          })
          .transform(({ failures, within, openFor }) => ({
            failures,
            withinMs: within,
            openForMs: openFor,
          })),
      ],
      'must be false or { failures, within, openFor }',
    )
    .prefault({})
    .describe('that many outages within that time: jobs wait and spend no attempts; false: never')

const common = (concurrency: number) => ({
  name: name().describe('shown as `adapter`; not `source`'),
  map: jsonata().optional().describe('JSONata that makes the body of the item'),
  fields: fields().optional(),
  concurrency: whole(1, 64).prefault(concurrency).describe('items delivered at a time'),
  rateLimit: rateLimit(),
  breaker: breaker(),
  timeout: duration('100ms', '1h').prefault('30s').describe('of one attempt'),
})

const timeoutMs = <T extends { timeout: number }>({ timeout, ...rest }: T) => ({
  ...rest,
  timeoutMs: timeout,
})

const okStatus = () => z.array(whole(100, 599)).min(1)

function http(context: FlowContext) {
  const url = () => httpUrl(context, ['pk', 'jobKey'])
  const headerValues = () => headers(context, ['pk', 'jobKey']).prefault({})
  return z
    .strictObject({
      ...common(4),
      type: z.literal('http'),
      request: z.strictObject({
        method: z.enum(['POST', 'PUT', 'PATCH', 'GET', 'DELETE']).prefault('POST'),
        url: url(),
        headers: headerValues(),
        okStatus: okStatus().optional().describe('statuses of success; without it all of 2xx'),
      }),
      delete: z
        .strictObject({
          method: z.enum(['DELETE', 'POST', 'PUT', 'PATCH', 'GET']).prefault('DELETE'),
          url: url(),
          headers: headerValues(),
          okStatus: okStatus().prefault([200, 202, 204, 404, 410]),
        })
        .optional()
        .describe('needed with deletes.mode delete'),
      retry: httpRetry(),
    })
    .transform(timeoutMs)
}

function sql(context: FlowContext) {
  return z
    .strictObject({
      ...common(4),
      type: z.literal('sql'),
      driver: driver(),
      url: databaseUrl(context),
      table: z
        .string()
        .max(256)
        .regex(
          /^[\p{L}_][\p{L}\p{N}_$]*(\.[\p{L}_][\p{L}\p{N}_$]*){0,2}$/u,
          'must be a table, such as erp.stores',
        ),
      upsertKey: columns().describe('columns that identify a row'),
      retry: retry(),
    })
    .superRefine(checkDatabase)
    .transform(timeoutMs)
}

function file(context: FlowContext) {
  return z
    .strictObject({
      ...common(1),
      type: z.literal('file'),
      path: filePath(context, ['date']).describe('{date} stands for the day'),
      format: z.enum(['ndjson', 'csv']).prefault('ndjson'),
      retry: retry(),
    })
    .transform(timeoutMs)
}

const stores = () =>
  z
    .strictObject({
      ...common(1),
      type: z.literal('payments.stores'),
      client: clientName(),
      allowStoreDelete: z
        .boolean()
        .prefault(false)
        .describe('with deletes.mode delete: also delete the store at the provider'),
      retry: retry(),
    })
    .transform(timeoutMs)

const pos = () =>
  z
    .strictObject({
      ...common(1),
      type: z.literal('payments.pos'),
      client: clientName(),
      retry: retry(),
    })
    .transform(timeoutMs)

export function destinationSchema(context: FlowContext) {
  return z.discriminatedUnion('type', [stores(), pos(), http(context), sql(context), file(context)])
}
