import { z } from 'zod'
import { Secret } from '../../domain/flow-secret.ts'
import { checkDatabase, databaseUrl, headers, httpUrl, sourceDriver } from './addresses.ts'
import { fileSource } from './file-source-schema.ts'
import type { FlowContext } from './flow-context.ts'
import { oauth } from './oauth-schema.ts'
import { requestBody } from './request-body.ts'
import { sftpSource } from './sftp-source-schema.ts'
import { groupBy, limits, path } from './source-fields.ts'
import {
  column,
  duration,
  exactNumberSchema,
  findingMessage,
  jsonata,
  secretText,
  text,
  timeZone,
  whole,
} from './value-schemas.ts'

const cursor = () =>
  z
    .strictObject({
      field: column().meta({
        description: 'the column or field that shows when a record changed',
        examples: ['cambiado'],
      }),
      initial: z
        .union(
          [z.string().min(1).max(256), exactNumberSchema()],
          findingMessage({ code: 'MUST_BE_TEXT_OR_NUMBER' }),
        )
        .transform(String)
        .prefault('1970-01-01T00:00:00Z')
        .meta({ description: 'where the first read begins', examples: ['1970-01-01T00:00:00Z'] }),
      overlap: duration('0s', '30d')
        .prefault('0s')
        .meta({
          description:
            'reads begin this long before the cursor, for records that were committed late',
          examples: ['5m'],
        }),
    })
    .transform(({ overlap, ...rest }) => ({ ...rest, overlapMs: overlap }))
    .optional()
    .meta({
      description:
        'polls read only what changed. The cursor never passes the time of the read; `/errors` names a value in the future',
      examples: [{ field: 'cambiado', overlap: '5m' }],
    })

const fullScanEvery = () =>
  duration('1s', '366d')
    .prefault('24h')
    .meta({
      description: 'with a cursor: how often a poll reads everything',
      examples: ['24h'],
    })

const parameter = () =>
  z.string().regex(/^[\w.[\]-]{1,64}$/, findingMessage({ code: 'MUST_BE_PARAMETER' }))

const paging = () =>
  z
    .discriminatedUnion('type', [
      z.strictObject({
        type: z.literal('none').meta({
          description:
            '`none` (one page, or as many as the list links to), `page` (by number), `offset`, `cursor` (the answer names the next), `pageInfo` (GraphQL), `link` (the header Link, RFC 8288). By number or offset, only an empty page or 404 is the end, not a short page',
          examples: ['none'],
        }),
      }),
      z.strictObject({
        type: z.literal('page'),
        param: parameter()
          .prefault('page')
          .meta({
            description:
              'the parameter of the address. A body with the placeholder of its paging names the page instead',
            examples: ['page'],
          }),
        start: whole(0, 1_000_000)
          .prefault(1)
          .meta({ description: '`page`: the number of the first', examples: [1] }),
        sizeParam: parameter()
          .optional()
          .meta({
            description: 'the parameter for the size; only `offset` has a default',
            examples: ['limit'],
          }),
        size: whole(1, 100_000)
          .optional()
          .meta({ description: 'records of a page. Only `offset` has a default', examples: [200] }),
      }),
      z.strictObject({
        type: z.literal('offset'),
        param: parameter().prefault('offset'),
        sizeParam: parameter().prefault('limit'),
        size: whole(1, 100_000).prefault(100),
      }),
      z.strictObject({
        type: z.literal('cursor'),
        param: parameter().prefault('cursor'),
        next: jsonata().meta({
          description:
            '`cursor`: JSONata over the answer (with XML over the document without its records). Reading ends when it gives nothing. A token that stays the same goes on until a page is empty',
          examples: ['next_token'],
        }),
        sizeParam: parameter().optional(),
        size: whole(1, 100_000).optional(),
      }),
      z
        .strictObject({
          type: z.literal('pageInfo'),
          at: path()
            .optional()
            .meta({
              description: '`pageInfo`: its place; without it beside the list of `items`',
              examples: ['data.products.pageInfo'],
            }),
        })
        .describe('pages of GraphQL: hasNextPage and endCursor, which body gets as {next}'),
      z.strictObject({ type: z.literal('link') }),
    ])
    .prefault({ type: 'none' })

const literal = (given: number | boolean) => new Secret(String(given), String(given))

/** MySQL represents booleans as 1 and 0; it converts the text `true` to 0. */
const truth = (given: boolean, driver: string) =>
  literal(driver === 'mysql' ? Number(given) : given)

/** Query parameters. A number is bound as text, a boolean in its database's form. */
const parameters = (context: FlowContext) =>
  z
    .record(
      z
        .string()
        .regex(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/, findingMessage({ code: 'MUST_BE_WORD' }))
        .regex(/^(?!(?:cursor|pk|key_\w+)$)/, findingMessage({ code: 'NAME_OF_SERVICE' })),
      z.union(
        [secretText(context), exactNumberSchema().transform(literal), z.boolean()],
        findingMessage({ code: 'MUST_BE_SCALAR' }),
      ),
    )
    .optional()

function sql(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('sql'),
      driver: sourceDriver().meta({
        description: '`postgres`, `mysql` (MariaDB too), `mssql` or `firebird`',
        examples: ['mssql'],
      }),
      url: databaseUrl(context).meta({
        description: `the address of the database, best as \${env:NAME}; a password in it must be a reference. Flows share 10 connections for reading and 10 for writing for each user of a server`,
        examples: [`\${env:ERP_DB_URL}`],
      }),
      query: text().meta({
        description:
          'one `SELECT`, or `WITH … SELECT`; nothing else is possible. `:cursor` is the cursor',
        examples: [
          'select s.codigo, s.nombre, s.calle, s.numero, s.ciudad, s.provincia, s.lat, s.lng, c.codigo as caja, c.nombre as caja_nombre\nfrom sucursales s join cajas c on c.sucursal = s.codigo order by s.codigo\n',
        ],
      }),
      timeZone: timeZone()
        .optional()
        .meta({
          description: 'time zone of columns without a zone, such as DATETIME; without it UTC',
          examples: ['America/Argentina/Buenos_Aires'],
        }),
      itemQuery: text()
        .optional()
        .meta({
          description:
            'reads one item: `:pk` is its key. `:key_1`, `:key_2` or `:key_<field>` are the parts of a key with several fields',
          examples: [
            'select codigo, cantidad, cambiado from stock where sucursal = :sucursal and codigo = :pk',
          ],
        }),
      parameters: parameters(context).meta({
        description:
          'values for `:name` in both: texts (also references), numbers up to 2^53, true or false (1 or 0 for MySQL). They are always bound, never part of the text',
        examples: [{ sucursal: 3 }],
      }),
      cursor: cursor(),
      fullScanEvery: fullScanEvery(),
      groupBy: groupBy(),
      limits: limits('longest wait for each portion of rows'),
    })
    .superRefine(checkDatabase)
    .transform(({ fullScanEvery, parameters: given, ...rest }) => ({
      ...rest,
      ...(given && {
        parameters: Object.fromEntries(
          Object.entries(given).map(([name, value]) => [
            name,
            typeof value === 'boolean' ? truth(value, rest.driver) : value,
          ]),
        ),
      }),
      fullScanEveryMs: fullScanEvery,
    }))
}

/** XML options of a record and of the path to the records. */
const xml = () =>
  z.strictObject({
    fields: z
      .record(column(), xmlPath())
      .optional()
      .meta({
        description:
          'field: its path in a record: `Precio`, `Precio/@moneda`, `.` for its own text. `Ean[]` takes all values; without `[]` a second one fails the poll. Without `fields` a record has everything: `@name` for attributes, `#text` for text beside them, lists for repeated names',
        examples: [
          { codigo: 'e:Codigo', precio: 'e:Precio', moneda: 'e:Precio/@moneda', ean: 'e:Ean[]' },
        ],
      }),
    namespaces: z
      .record(
        z.string().regex(/^[A-Za-z_][\w.-]{0,63}$/, findingMessage({ code: 'MUST_BE_PREFIX' })),
        text(),
      )
      .prefault({})
      .meta({
        description: 'prefixes for paths; a name without one fits any namespace',
        examples: [{ e: 'urn:erp' }],
      }),
  })

const xmlPath = () => z.string().min(1).max(1_024)

const method = () => z.enum(['GET', 'POST']).optional()

function http(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('http'),
      url: httpUrl(context, ['cursor']).meta({
        description:
          '`{cursor}` is the cursor. Redirects of GET, and links, stay within the origin',
        examples: ['https://erp.example.com/graphql'],
      }),
      method: method().meta({
        description: '`GET` or `POST`; without it GET, with a body POST',
        examples: ['POST'],
      }),
      headers: headers(context)
        .prefault({})
        .meta({
          description: `values of secrets as \${env:NAME} or \${file:/path}`,
          examples: [{ authorization: `Bearer \${env:ERP_TOKEN}` }],
        }),
      auth: oauth(context).meta({
        description:
          'an access token for every request; after a 401 the request is sent again with a new token. Another access is no change of the definition',
        examples: [
          {
            type: 'oauth2',
            tokenUrl: 'https://login.microsoftonline.com/0b1d/oauth2/v2.0/token',
            clientId: '4e5f6a7b',
            clientSecret: `\${env:BC_CLIENT_SECRET}`,
            scope: 'https://api.businesscentral.dynamics.com/.default',
            clientAuth: 'form',
          },
        ],
      }),
      body: requestBody(context, ['cursor', 'page', 'offset', 'size', 'next'])
        .optional()
        .meta({
          description: 'one of `graphql`, `json`, `form` and `xml`',
          examples: [
            {
              graphql:
                'query ($after: String, $desde: DateTime!) {\n  productos(first: 100, after: $after, cambiadosDesde: $desde) {\n    nodes { codigo nombre precio cambiado }\n    pageInfo { hasNextPage endCursor }\n  }\n}\n',
              variables: { after: '{next}', desde: '{cursor}' },
            },
          ],
        }),
      items: path()
        .optional()
        .meta({
          description:
            'the place of the list: names joined by dots; without it the answer is the list. With `xml` a path, required. An entry that is no object is left out, and `/errors` names it; without any object the poll fails',
          examples: ['data.productos.nodes'],
        }),
      xml: xml()
        .optional()
        .meta({
          description:
            'answers are XML. The elements around the records must exist; another document fails the poll',
          examples: [
            {
              namespaces: { e: 'urn:erp' },
              fields: {
                codigo: 'e:Codigo',
                precio: 'e:Precio',
                moneda: 'e:Precio/@moneda',
                ean: 'e:Ean[]',
              },
            },
          ],
        }),
      paging: paging().meta({
        description: 'how pages are read',
        examples: [{ type: 'pageInfo' }],
      }),
      item: z
        .strictObject({
          url: httpUrl(context, ['pk']).meta({
            description: '`{pk}` is the key. 404 and 410 mean that there is no such item',
            examples: ['https://erp.example.com/graphql'],
          }),
          method: method().meta({ description: 'as `method`', examples: ['POST'] }),
          body: requestBody(context, ['pk'])
            .optional()
            .meta({
              description: 'as `body`, with `{pk}`',
              examples: [
                {
                  graphql:
                    'query ($codigo: ID!) { producto(codigo: $codigo) { codigo nombre precio cambiado } }',
                  variables: { codigo: '{pk}' },
                },
              ],
            }),
          items: path()
            .optional()
            .meta({
              description:
                'the place of the item in that answer, as itself or in a list; with `xml` as `items`',
              examples: ['data.producto'],
            }),
        })
        .optional()
        .meta({
          description: 'how one item is read; without it, by reading all',
          examples: [
            {
              url: 'https://erp.example.com/graphql',
              body: {
                graphql:
                  'query ($codigo: ID!) { producto(codigo: $codigo) { codigo nombre precio cambiado } }',
                variables: { codigo: '{pk}' },
              },
              items: 'data.producto',
            },
          ],
        }),
      cursor: cursor(),
      fullScanEvery: fullScanEvery(),
      groupBy: groupBy(),
      limits: limits('longest time of one request'),
    })
    .transform(({ fullScanEvery, ...rest }) => ({ ...rest, fullScanEveryMs: fullScanEvery }))
}

const orders = () =>
  z
    .strictObject({
      type: z.literal('payments.orders'),
      client: clientName()
        .optional()
        .meta({ description: 'only this client; without it all', examples: ['acme'] }),
    })
    .describe('every change of an order of the payment side')

const settlements = () =>
  z
    .strictObject({
      type: z.literal('payments.settlements'),
      client: clientName().optional().describe('only the movements of this client'),
    })
    .describe('every movement of the reports that the service has read')

const closings = () =>
  z
    .strictObject({
      type: z.literal('payments.closings'),
      client: clientName().optional().describe('only the closings of this client'),
    })
    .describe('every closing of a day, when it changes and when it is amended')

/** The name of a client of the payment side. */
export function clientName() {
  return z
    .string()
    .regex(/^(?! )[^\p{Cc}]{1,100}(?<! )$/u, findingMessage({ code: 'MUST_BE_CLIENT' }))
}

export function sourceSchema(context: FlowContext) {
  return z.discriminatedUnion('type', [
    sql(context),
    http(context),
    fileSource(context),
    sftpSource(context),
    orders(),
    settlements(),
    closings(),
  ])
}
