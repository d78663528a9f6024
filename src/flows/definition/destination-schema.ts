import { z } from 'zod'
import {
  checkDatabase,
  checkWrittenDatabase,
  databaseUrl,
  driver,
  filePath,
  headerName,
  headers,
  httpUrl,
} from './addresses.ts'
import type { FlowContext } from './flow-context.ts'
import { literalSecret } from './literal-secrets.ts'
import { oauth } from './oauth-schema.ts'
import { clientName } from './source-schema.ts'
import {
  column,
  duration,
  findingMessage,
  jsonata,
  name,
  oneOrMore,
  secretText,
  text,
  whole,
} from './value-schemas.ts'

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
        findingMessage({ code: 'MUST_BE_FIELD_RULE' }),
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
        .describe(
          'statuses worth another attempt; without it 408, 409, 423, 425, 429 and all from 500',
        ),
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
            percent: whole(1, 100).prefault(50).describe('of the attempts that ended last'),
            within: duration('1s', '24h').prefault('1m'),
            openFor: duration('1s', '24h').prefault('2m'),
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
    .describe(
      'that many outages within that time, and that share of the attempts: jobs wait and spend no attempts; false: never',
    )

const common = (concurrency: number) => ({
  name: name().describe('shown as `adapter`; not `source`'),
  map: jsonata().optional().describe('JSONata that makes the body of the item'),
  fields: fields().optional(),
  filter: jsonata()
    .optional()
    .describe(
      'JSONata over the item; one for which it is not true is not sent to this destination',
    ),
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

/** The key `sign` of an HTTP destination. */
export const signing = (context: FlowContext) =>
  z
    .strictObject({
      secret: secretText(context, literalSecret),
      algorithm: z.enum(['sha1', 'sha256', 'sha512']).prefault('sha256'),
      encoding: z.enum(['hex', 'base64']).prefault('hex'),
      header: headerName().prefault('x-signature'),
      prefix: z.string().max(64).prefault('').describe('such as sha256='),
      text: text()
        .max(1_024)
        .prefault('{body}')
        .describe('what is signed: {body}, {timestamp}, {method}, {path}, {jobKey}'),
      timestampHeader: headerName().optional().describe('carries {timestamp}, in seconds'),
    })
    .optional()
    .describe('an HMAC over each request')

function http(context: FlowContext) {
  const places = ['pk', 'jobKey', 'body.field', 'remembered.name']
  const url = () => httpUrl(context, places)
  const headerValues = () => headers(context, places).prefault({})
  const ownBody = () =>
    jsonata()
      .optional()
      .describe('over { body, remembered, pk, jobKey }; without it the mapped body')
  const remembered = () =>
    z
      .record(
        z.string().regex(/^[A-Za-z_]\w{0,63}$/, findingMessage({ code: 'MUST_BE_NAME' })),
        jsonata(),
      )
      .optional()
      .describe('name: JSONata over the JSON of an answer, with $pk and $headers; kept by the item')
  const lookupRequest = () =>
    z.strictObject({
      method: z.enum(['GET', 'POST']).prefault('GET'),
      url: url(),
      headers: headerValues(),
      okStatus: okStatus().optional(),
      body: ownBody(),
      remember: remembered(),
      fresh: z
        .boolean()
        .prefault(false)
        .describe('asked before every change and delete; its values hold for that request only'),
    })
  const batch = () =>
    z
      .strictObject({
        size: whole(2, 1_000).describe('items of one request at most'),
        request: z
          .strictObject({
            method: z.enum(['POST', 'PUT', 'PATCH']).prefault('POST'),
            url: httpUrl(context, ['jobKey']),
            headers: headers(context, ['jobKey']).prefault({}),
            okStatus: okStatus().optional(),
          })
          .optional()
          .describe('without it the request of single items, whose address has no {pk} then'),
        body: jsonata()
          .optional()
          .describe('over { items, pks, jobKeys, remembered }; without it the list of the bodies'),
        answers: jsonata()
          .optional()
          .describe(
            'over { status, body, items, pks }: a list with a status, true, or { ok, status, error, remember } for each item, with is: "retry" or "gone" where another attempt has to go on from what is remembered, or from nothing, or "apart" for an item that needs a request of its own; without it the status of the answer is that of all',
          ),
      })
      .optional()
      .describe('several items by one request')
  return z
    .strictObject({
      ...common(4),
      type: z.literal('http'),
      request: z.strictObject({
        method: z.enum(['POST', 'PUT', 'PATCH', 'GET', 'DELETE']).prefault('POST'),
        url: url(),
        headers: headerValues(),
        okStatus: okStatus().optional().describe('statuses of success; without it all of 2xx'),
        body: ownBody(),
        parts: z
          .array(jsonata())
          .min(2)
          .max(8)
          .optional()
          .describe(
            'bodies that are sent one by one when the receiver refuses the whole with 400 or 422, so that it takes the others; over the same values as body, and one that gives nothing is left out',
          ),
      }),
      create: z
        .strictObject({
          method: z.enum(['POST', 'PUT', 'PATCH']).prefault('POST'),
          url: url(),
          headers: headerValues(),
          okStatus: okStatus().optional(),
          body: ownBody(),
        })
        .optional()
        .describe('for items of which nothing is remembered; request is for the others then'),
      find: z
        .union(
          [lookupRequest(), z.array(lookupRequest()).min(1).max(4)],
          findingMessage({ code: 'MUST_BE_REQUEST_OR_LIST' }),
        )
        .transform((given) => (Array.isArray(given) ? given : [given]))
        .optional()
        .describe(
          'asked before an item is created, changed or deleted of which nothing is remembered: 404, 410, or an answer without the values means that it is not there; of a list the next one is asked then. One that uses {remembered.name} goes on from what was found',
        ),
      remember: remembered(),
      send: z.enum(['json', 'form', 'xml']).prefault('json').describe('the form of bodies'),
      sign: signing(context),
      auth: oauth(context),
      answers: z
        .array(
          z.strictObject({
            status: z
              .array(whole(100, 599))
              .min(1)
              .optional()
              .describe(
                'the statuses the rule is about; without it all that are not worth another attempt by themselves',
              ),
            when: jsonata()
              .optional()
              .describe(
                'over { status, body, text } of the answer, kind (upsert or delete), sent (the mapped body; null for a look-up) and remembered: true where the rule holds, or a text that says what is wrong',
              ),
            is: z.enum(['done', 'final', 'retry', 'gone']),
          }),
        )
        .max(50)
        .optional()
        .describe(
          'what answers mean; the first rule that holds counts. A status that is worth another attempt is tried again unless a rule names it',
        ),
      delete: z
        .strictObject({
          method: z.enum(['DELETE', 'POST', 'PUT', 'PATCH', 'GET']).prefault('DELETE'),
          url: url(),
          headers: headerValues(),
          okStatus: okStatus().prefault([200, 202, 204, 404, 410]),
          body: ownBody(),
          keeps: z
            .boolean()
            .prefault(false)
            .describe(
              'the receiver keeps the item in another state, such as hidden: what is remembered of it stays, as the answer says',
            ),
        })
        .optional()
        .describe('needed with deletes.mode delete'),
      batch: batch(),
      budget: name()
        .optional()
        .describe(
          'the name of a rateLimit that all destinations which name it share, in all flows and processes',
        ),
      retry: httpRetry(),
    })
    .transform(timeoutMs)
}

const rowsAtOnce = 500

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
          findingMessage({ code: 'MUST_BE_TABLE' }),
        ),
      upsertKey: oneOrMore().describe('the columns that identify a row'),
      batch: z
        .strictObject({ size: whole(1, 1_000) })
        .optional()
        .describe('rows of one statement at most; without it 500, with a rateLimit 1'),
      binary: z
        .record(column(), z.enum(['base64', 'text']))
        .optional()
        .describe('columns of bytes, and what the text is that goes into them'),
      retry: retry(),
    })
    .superRefine(checkDatabase)
    .superRefine(checkWrittenDatabase)
    .transform(({ batch, ...rest }) =>
      // An existing rate limit was chosen for single rows.
      timeoutMs({ ...rest, batch: batch ?? { size: rest.rateLimit ? 1 : rowsAtOnce } }),
    )
}

function file(context: FlowContext) {
  return z
    .strictObject({
      ...common(1),
      type: z.literal('file'),
      path: filePath(context, ['date']).describe('{date} is the day'),
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
