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

const retry = () => z.strictObject(retryShape()).transform(inMs).prefault({}).meta(retryMeaning)

const httpRetry = () =>
  z
    .strictObject({
      ...retryShape(),
      retryStatus: z
        .array(whole(100, 599))
        .optional()
        .meta({
          description: 'statuses worth another attempt; without it 408, 425, 429 and all from 500',
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

const common = (concurrency: number) => ({
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

const timeoutMs = <T extends { timeout: number }>({ timeout, ...rest }: T) => ({
  ...rest,
  timeoutMs: timeout,
})

const okStatus = () => z.array(whole(100, 599)).min(1)

/** The key `sign` of an HTTP destination. */
export const signing = (context: FlowContext) =>
  z
    .strictObject({
      secret: secretText(context, literalSecret).meta({
        description: 'the secret, as a reference',
        examples: [`\${env:SHOP_SIGNING_KEY}`],
      }),
      algorithm: z
        .enum(['sha1', 'sha256', 'sha512'])
        .prefault('sha256')
        .meta({ description: 'also `sha1`, `sha512`', examples: ['sha512'] }),
      encoding: z
        .enum(['hex', 'base64'])
        .prefault('hex')
        .meta({ description: 'or `base64`', examples: ['base64'] }),
      header: headerName()
        .prefault('x-signature')
        .meta({ description: 'the header of the signature', examples: ['x-signature'] }),
      prefix: z
        .string()
        .max(64)
        .prefault('')
        .meta({ description: 'text before it, such as `sha256=`', examples: ['sha256='] }),
      text: text()
        .max(1_024)
        .prefault('{body}')
        .meta({
          description: 'the signed text: `{body}`, `{timestamp}`, `{method}`, `{path}`, `{jobKey}`',
          examples: ['{timestamp}.{body}'],
        }),
      timestampHeader: headerName()
        .optional()
        .meta({
          description: 'the header with `{timestamp}`, in seconds',
          examples: ['x-timestamp'],
        }),
    })
    .optional()

function http(context: FlowContext) {
  const places = ['pk', 'jobKey', 'body.field', 'remembered.name']
  const url = () => httpUrl(context, places)
  const headerValues = () => headers(context, places).prefault({})
  const ownBody = () => jsonata().optional()
  const remembered = () =>
    z
      .record(
        z.string().regex(/^[A-Za-z_]\w{0,63}$/, findingMessage({ code: 'MUST_BE_NAME' })),
        jsonata(),
      )
      .optional()
  const lookupRequest = () =>
    z.strictObject({
      method: z
        .enum(['GET', 'POST'])
        .prefault('GET')
        .meta({ description: 'also `POST`', examples: ['POST'] }),
      url: url().meta({
        description: 'as `request.url`',
        examples: ['https://shop.example.com/api/products?sku={body.sku}'],
      }),
      headers: headerValues().meta({
        description: 'as `request.headers`',
        examples: [{ 'x-api-key': `\${env:SHOP_KEY}` }],
      }),
      okStatus: okStatus()
        .optional()
        .meta({ description: 'as `request.okStatus`', examples: [[200]] }),
      body: ownBody().meta({
        description: 'as `request.body`',
        examples: [
          '{ "query": "query($q: String!) { productVariants(first: 50, query: $q) { nodes { id sku inventoryItem { id } product { id handle } } } }",\n  "variables": { "q": "sku:\\"" & $replace(pk, "\\"", "") & "\\"" } }\n',
        ],
      }),
      remember: remembered().meta({
        description: 'as `remember`, of this answer; without it `remember`',
        examples: [{ id: '$[0].id' }],
      }),
      fresh: z
        .boolean()
        .prefault(false)
        .meta({
          description:
            'runs before every change and delete. Its values are for that request only, up to 65,536 characters each. One that `remember` names too is stored, and has to stay the same',
          examples: [true],
        }),
    })
  const batch = () =>
    z
      .strictObject({
        size: whole(2, 1_000).meta({
          description: 'items of one request at most, 2 to 1,000',
          examples: [100],
        }),
        request: z
          .strictObject({
            method: z
              .enum(['POST', 'PUT', 'PATCH'])
              .prefault('POST')
              .meta({ description: 'also `PUT`, `PATCH`', examples: ['PATCH'] }),
            url: httpUrl(context, ['jobKey']).meta({
              description: 'with `{jobKey}`',
              examples: ['https://shop.example.com/api/stock/batch'],
            }),
            headers: headers(context, ['jobKey'])
              .prefault({})
              .meta({
                description: 'as `request.headers`, with `{jobKey}`',
                examples: [{ authorization: `Basic \${env:WOO_BASIC}` }],
              }),
            okStatus: okStatus()
              .optional()
              .meta({ description: 'as `request.okStatus`', examples: [[200, 207]] }),
          })
          .optional()
          .meta({
            description:
              'without it the `request` of single items, if its address does not depend on the item',
            examples: [{ url: 'https://shop.example.com/api/stock/batch' }],
          }),
        body: jsonata()
          .optional()
          .meta({
            description:
              'JSONata over `{ items, pks, jobKeys, remembered }`; without it the list of the bodies',
            examples: ['{ "updates": [items] }'],
          }),
        answers: jsonata()
          .optional()
          .meta({
            description:
              'JSONata over `{ status, body, items, pks }`: a result for each item, in order: a status, `true`, or `{ ok, status, error, remember }`. Its `is: "retry"` tries again with the remembered values. `"gone"` tries without them. `"apart"` uses the request of single items. Without it the status is the result of all; an answer without all items counts for none',
            examples: ['body.results.{ "ok": code = 0, "error": message }'],
          }),
      })
      .optional()
  return z
    .strictObject({
      ...common(4),
      type: z.literal('http'),
      request: z
        .strictObject({
          method: z
            .enum(['POST', 'PUT', 'PATCH', 'GET', 'DELETE'])
            .prefault('POST')
            .meta({ description: 'also `PUT`, `PATCH`, `GET`, `DELETE`', examples: ['PATCH'] }),
          url: url().meta({
            description:
              'with `{pk}`, `{jobKey}`, `{body.field}` (of the mapped body) and `{remembered.name}`, percent-encoded and never empty. `{+remembered.name}` keeps the slashes of a path. The host may not depend on the item. The path has no empty segment (`//`)',
            examples: ['https://shop.example.com/api/products/{remembered.id}'],
          }),
          headers: headerValues().meta({
            description: `values of secrets as \${env:NAME} or \${file:/path}; the same placeholders. An own idempotency-key replaces ours ({jobKey})`,
            examples: [{ 'x-api-key': `\${env:SHOP_KEY}` }],
          }),
          okStatus: okStatus()
            .optional()
            .meta({ description: 'statuses of success; without it 2xx', examples: [[200, 201]] }),
          body: ownBody().meta({
            description:
              'JSONata over `{ body, remembered, pk, jobKey }`; without it the mapped body. `GET` has none',
            examples: ['{ "price": body.price }'],
          }),
          parts: z
            .array(jsonata())
            .min(2)
            .max(8)
            .optional()
            .meta({
              description:
                '2 to 8 bodies, over the same values. They are sent one by one when the receiver refuses the whole with 400 or 422. One that gives nothing is left out',
              examples: [
                [
                  '$exists(body.price) ? { "price": body.price }',
                  '$exists(body.stock) ? { "stock": body.stock }',
                ],
              ],
            }),
        })
        .meta({
          description:
            'the request for an item; with `create`, only for items with remembered values',
          examples: [
            {
              method: 'PATCH',
              url: 'https://shop.example.com/api/products/{remembered.id}',
              headers: { 'x-api-key': `\${env:SHOP_KEY}` },
              body: '{ "price": body.price }',
            },
          ],
        }),
      create: z
        .strictObject({
          method: z
            .enum(['POST', 'PUT', 'PATCH'])
            .prefault('POST')
            .meta({ description: 'also `PUT`, `PATCH`', examples: ['PATCH'] }),
          url: url().meta({
            description: 'as `request.url`',
            examples: ['https://shop.example.com/api/products'],
          }),
          headers: headerValues().meta({
            description: 'as `request.headers`',
            examples: [{ 'x-api-key': `\${env:SHOP_KEY}` }],
          }),
          okStatus: okStatus()
            .optional()
            .meta({ description: 'as `request.okStatus`', examples: [[201]] }),
          body: ownBody().meta({
            description: 'as `request.body`',
            examples: [
              '{ "query": "mutation($by: ProductSetIdentifiers!, $product: ProductSetInput!) { productSet(identifier: $by, input: $product, synchronous: true) { product { id } userErrors { code field message } } }",\n  "variables": { "by": { "handle": body.handle }, "product": {\n    "handle": body.handle, "title": body.title, "status": "ACTIVE",\n    "productOptions": [{ "name": "Title", "values": [{ "name": "Default Title" }] }],\n    "variants": [{ "optionValues": [{ "optionName": "Title", "name": "Default Title" }], "price": body.price,\n      "inventoryItem": { "sku": body.sku, "tracked": true },\n      "inventoryQuantities": [{ "locationId": "gid://shopify/Location/1", "name": "available", "quantity": body.stock }] }] } } }\n',
            ],
          }),
        })
        .optional()
        .meta({
          description: 'for items without remembered values; needs `remember`',
          examples: [
            {
              url: 'https://shop.example.com/api/products',
              headers: { 'x-api-key': `\${env:SHOP_KEY}` },
            },
          ],
        }),
      find: z
        .union(
          [lookupRequest(), z.array(lookupRequest()).min(1).max(4)],
          findingMessage({ code: 'MUST_BE_REQUEST_OR_LIST' }),
        )
        .transform((given) => (Array.isArray(given) ? given : [given]))
        .optional()
        .meta({
          description:
            'a request, or a list of up to four, for an item without remembered values. 404, 410, or an answer without the values: the item is not there. Several values, or an answer that is no JSON or larger than 1 MiB, fail the attempt, and nothing is created. It runs again after a success whose answer has nothing to remember',
          examples: [
            {
              url: 'https://shop.example.com/api/products?sku={body.sku}',
              headers: { 'x-api-key': `\${env:SHOP_KEY}` },
              remember: { id: '$[0].id' },
            },
          ],
        }),
      remember: remembered().meta({
        description:
          'name: JSONata over the JSON of an answer, with `$pk` and `$headers` (names in small letters). Texts (1,024 characters), numbers (beyond 2^53 as exact texts), true or false, stored with the item',
        examples: [{ id: 'id' }],
      }),
      send: z
        .enum(['json', 'form', 'xml'])
        .prefault('json')
        .meta({
          description:
            'the form of bodies: also `form` and `xml` (`@name` an attribute, `#text` the text beside attributes, a list repeats its element)',
          examples: ['xml'],
        }),
      sign: signing(context).meta({
        description: 'an HMAC over each request',
        examples: [
          {
            secret: `\${env:SHOP_SIGNING_KEY}`,
            text: '{timestamp}.{body}',
            timestampHeader: 'x-timestamp',
          },
        ],
      }),
      auth: oauth(context).meta({
        description: 'every request has `authorization: Bearer` with a token from here',
        examples: [
          {
            type: 'oauth2',
            grant: 'refresh_token',
            tokenUrl: 'https://api.mercadolibre.com/oauth/token',
            clientId: `\${env:MELI_APP_ID}`,
            clientSecret: `\${env:MELI_APP_SECRET}`,
            clientAuth: 'form',
            refreshToken: `\${env:MELI_REFRESH_TOKEN}`,
          },
        ],
      }),
      answers: z
        .array(
          z.strictObject({
            status: z
              .array(whole(100, 599))
              .min(1)
              .optional()
              .meta({
                description:
                  'the statuses of the rule; without it all that are final by themselves',
                examples: [[409]],
              }),
            when: jsonata()
              .optional()
              .meta({
                description:
                  'JSONata over `{ status, body, text, kind, sent, remembered }`: the answer, `upsert` or `delete`, the mapped body (null for a look-up), and the remembered values. The rule counts when it is true, or a text: the reason',
                examples: ['body.code = "exists"'],
              }),
            is: z.enum(['done', 'final', 'retry', 'gone']).meta({
              description:
                '`done`, `final` (failed permanently), `retry`, or `gone`: the receiver no longer has the item, and remembered values do not count',
              examples: ['done'],
            }),
          }),
        )
        .max(50)
        .optional()
        .meta({
          description: 'what answers mean; the first rule that holds counts',
          examples: [[{ status: [409], when: 'body.code = "exists"', is: 'done' }]],
        }),
      delete: z
        .strictObject({
          method: z
            .enum(['DELETE', 'POST', 'PUT', 'PATCH', 'GET'])
            .prefault('DELETE')
            .meta({ description: 'also `POST`, `PUT`, `PATCH`, `GET`', examples: ['PUT'] }),
          url: url().meta({
            description: 'as `request.url`',
            examples: ['https://shop.example.com/api/products/{remembered.id}'],
          }),
          headers: headerValues().meta({
            description: 'as `request.headers`',
            examples: [{ 'x-api-key': `\${env:SHOP_KEY}` }],
          }),
          okStatus: okStatus()
            .prefault([200, 202, 204, 404, 410])
            .meta({ description: '404 and 410 count: the item is not there', examples: [[200]] }),
          body: ownBody().meta({
            description:
              'as `request.body`; each value from `body` or `remembered` must exist. Without it a `DELETE` has no body. Other methods send the last delivered body, up to 16 KiB',
            examples: ['{ "available_quantity": 0 }'],
          }),
          keeps: z
            .boolean()
            .prefault(false)
            .meta({
              description:
                'the receiver keeps the item in another state, such as hidden or out of stock. Its remembered values stay',
              examples: [true],
            }),
        })
        .optional()
        .meta({
          description:
            'required with `deletes: { mode: delete }`. An item that was never sent is skipped; an attempt without an answer counts as sent',
          examples: [
            {
              url: 'https://shop.example.com/api/products/{remembered.id}',
              headers: { 'x-api-key': `\${env:SHOP_KEY}` },
            },
          ],
        }),
      batch: batch().meta({
        description: 'several items by one request; deletes go one by one',
        examples: [
          {
            size: 100,
            request: { url: 'https://shop.example.com/api/stock/batch' },
            body: '{ "updates": [items] }',
            answers: 'body.results.{ "ok": code = 0, "error": message }',
          },
        ],
      }),
      budget: name()
        .optional()
        .meta({
          description:
            'a name: destinations with the same name and the same `rateLimit` share it, in all flows and processes',
          examples: ['tienda'],
        }),
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
      driver: driver().meta({
        description: '`postgres`, `mysql` (MariaDB too) or `mssql`',
        examples: ['postgres'],
      }),
      url: databaseUrl(context).meta({
        description: `the address of the database, best as \${env:NAME}; a password in it must be a reference`,
        examples: [`\${env:WEB_DB_URL}`],
      }),
      table: z
        .string()
        .max(256)
        .regex(
          /^[\p{L}_][\p{L}\p{N}_$]*(\.[\p{L}_][\p{L}\p{N}_$]*){0,2}$/u,
          findingMessage({ code: 'MUST_BE_TABLE' }),
        )
        .meta({ description: 'such as `erp.stores`; it must exist', examples: ['web.articulos'] }),
      upsertKey: oneOrMore().meta({
        description:
          'the column, or the columns, that identify a row. PostgreSQL needs a unique index on them, the others should have one. Blanks at the end count, except in `CHAR(n)`. MySQL is fast where it is the primary key and no insert trigger runs',
        examples: ['sku'],
      }),
      batch: z
        .strictObject({
          size: whole(1, 1_000).meta({ description: 'most rows, 1 to 1,000', examples: [1000] }),
        })
        .optional()
        .meta({
          description:
            'rows of one statement; without it 500, with a `rateLimit` (which limits statements) 1',
          examples: [{ size: 1000 }],
        }),
      binary: z
        .record(column(), z.enum(['base64', 'text']))
        .optional()
        .meta({
          description:
            'column of bytes: whether its text is `base64` or `text`; without it such a value fails and names the column',
          examples: [{ foto: 'base64' }],
        }),
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
      path: filePath(context, ['date']).meta({
        description:
          "`{date}` is the day of the delivery, `2026-11-21`, by the time zone of the flow's window (else UTC). Relative paths: to the working directory; never by `..`",
        examples: ['./out/articulos-{date}.csv'],
      }),
      format: z
        .enum(['ndjson', 'csv'])
        .prefault('ndjson')
        .meta({ description: 'a line of JSON, or `csv` (comma, CRLF)', examples: ['csv'] }),
      retry: retry(),
    })
    .transform(timeoutMs)
}

const stores = () =>
  z
    .strictObject({
      ...common(1),
      type: z.literal('payments.stores'),
      client: clientName().meta({
        description: 'the client of the stores; it must be connected',
        examples: ['acme'],
      }),
      allowStoreDelete: z
        .boolean()
        .prefault(false)
        .meta({
          description:
            '`payments.stores` with `deletes: { mode: delete }`: also deletes the store at Mercado Pago, permanently',
          examples: [true],
        }),
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
