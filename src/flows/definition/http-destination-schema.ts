import { z } from 'zod'
import { headerName, headers, httpUrl } from './addresses.ts'
import { common, httpRetry, timeoutMs } from './destination-fields.ts'
import type { FlowContext } from './flow-context.ts'
import { literalSecret } from './literal-secrets.ts'
import { oauth } from './oauth-schema.ts'
import { findingMessage, jsonata, name, secretText, text, whole } from './value-schemas.ts'

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

type HttpParts = ReturnType<typeof httpParts>

/** What several requests of a destination have. */
function httpParts(context: FlowContext) {
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
  return { url, headerValues, ownBody, remembered }
}

/** A request that looks for an item. */
function lookupRequest({ url, headerValues, ownBody, remembered }: HttpParts) {
  return z.strictObject({
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
}

/** Requests before an item is created, changed or deleted. */
function lookups(parts: HttpParts) {
  return z
    .union(
      [lookupRequest(parts), z.array(lookupRequest(parts)).min(1).max(4)],
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
    })
}

/** Several items by one request. */
function batch(context: FlowContext) {
  return z
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
}

/** The request for an item. */
function requestForItem({ url, headerValues, ownBody }: HttpParts) {
  return z
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
      description: 'the request for an item; with `create`, only for items with remembered values',
      examples: [
        {
          method: 'PATCH',
          url: 'https://shop.example.com/api/products/{remembered.id}',
          headers: { 'x-api-key': `\${env:SHOP_KEY}` },
          body: '{ "price": body.price }',
        },
      ],
    })
}

/** The request for an item without remembered values. */
function requestForNewItem({ url, headerValues, ownBody }: HttpParts) {
  return z
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
    })
}

/** What answers mean. */
function answerRules() {
  return z
    .array(
      z.strictObject({
        status: z
          .array(whole(100, 599))
          .min(1)
          .optional()
          .meta({
            description: 'the statuses of the rule; without it all that are final by themselves',
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
    })
}

/** The request that deletes an item. */
function requestForDelete({ url, headerValues, ownBody }: HttpParts) {
  return z
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
    })
}

/** A destination that is sent items by HTTP. */
export function httpDestination(context: FlowContext) {
  const parts = httpParts(context)
  return z
    .strictObject({
      ...common(4),
      type: z.literal('http'),
      request: requestForItem(parts),
      create: requestForNewItem(parts),
      find: lookups(parts),
      remember: parts.remembered().meta({
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
      answers: answerRules(),
      delete: requestForDelete(parts),
      batch: batch(context).meta({
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
