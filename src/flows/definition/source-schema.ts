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
  exactNumber,
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
      field: column(),
      initial: z
        .union(
          [z.string().min(1).max(256), exactNumber()],
          findingMessage({ code: 'MUST_BE_TEXT_OR_NUMBER' }),
        )
        .transform(String)
        .prefault('1970-01-01T00:00:00Z')
        .describe('where the first read begins'),
      overlap: duration('0s', '30d')
        .prefault('0s')
        .describe('reads begin that long before the cursor, for records that were committed late'),
    })
    .transform(({ overlap, ...rest }) => ({ ...rest, overlapMs: overlap }))
    .optional()

const fullScanEvery = () =>
  duration('1s', '366d')
    .prefault('24h')
    .describe('with a cursor: everything is read again that often, for late commits and deletes')

const parameter = () =>
  z.string().regex(/^[\w.[\]-]{1,64}$/, findingMessage({ code: 'MUST_BE_PARAMETER' }))

const paging = () =>
  z
    .discriminatedUnion('type', [
      z.strictObject({ type: z.literal('none') }),
      z.strictObject({
        type: z.literal('page'),
        param: parameter().prefault('page'),
        start: whole(0, 1_000_000).prefault(1).describe('number of the first page'),
        sizeParam: parameter().optional(),
        size: whole(1, 100_000).optional().describe('a shorter page is the last one'),
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
        next: jsonata().describe('JSONata over the answer; null or nothing ends the reading'),
        sizeParam: parameter().optional(),
        size: whole(1, 100_000).optional(),
      }),
      z
        .strictObject({
          type: z.literal('pageInfo'),
          at: path()
            .optional()
            .describe('where pageInfo stands; without it beside the list of items'),
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
        [secretText(context), exactNumber().transform(literal), z.boolean()],
        findingMessage({ code: 'MUST_BE_SCALAR' }),
      ),
    )
    .optional()
    .describe('values for :name in query and itemQuery, such as { sucursal: 3 }; always bound')

function sql(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('sql'),
      driver: sourceDriver(),
      url: databaseUrl(context),
      query: text().describe('one SELECT, or WITH … SELECT; :cursor is the cursor'),
      timeZone: timeZone()
        .optional()
        .describe('of times in columns without a zone, such as DATETIME; without it UTC'),
      itemQuery: text().optional().describe('reads one item, :pk is its key'),
      parameters: parameters(context),
      cursor: cursor(),
      fullScanEvery: fullScanEvery(),
      groupBy: groupBy(),
      limits: limits(),
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
      .describe('field: its path in the record, such as Precio/@moneda; without it all there is'),
    namespaces: z
      .record(
        z.string().regex(/^[A-Za-z_][\w.-]{0,63}$/, findingMessage({ code: 'MUST_BE_PREFIX' })),
        text(),
      )
      .prefault({})
      .describe('prefixes for paths; a name without one is met in any namespace'),
  })

const xmlPath = () => z.string().min(1).max(1_024)

const method = () => z.enum(['GET', 'POST']).optional().describe('without it GET, with body POST')

function http(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('http'),
      url: httpUrl(context, ['cursor']).describe('{cursor} is the cursor'),
      method: method(),
      headers: headers(context).prefault({}),
      auth: oauth(context),
      body: requestBody(context, ['cursor', 'page', 'offset', 'size', 'next'])
        .optional()
        .describe('{cursor} is the cursor; {page}, {offset}, {size}, {next} are of the page'),
      items: path().optional(),
      xml: xml().optional().describe('answers are XML'),
      paging: paging(),
      item: z
        .strictObject({
          url: httpUrl(context, ['pk']).describe('{pk} is the key'),
          method: method(),
          body: requestBody(context, ['pk']).optional().describe('{pk} is the key'),
          items: path().optional(),
        })
        .optional()
        .describe('reads one item'),
      cursor: cursor(),
      fullScanEvery: fullScanEvery(),
      groupBy: groupBy(),
      limits: limits(),
    })
    .transform(({ fullScanEvery, ...rest }) => ({ ...rest, fullScanEveryMs: fullScanEvery }))
}

const orders = () =>
  z
    .strictObject({
      type: z.literal('payments.orders'),
      client: clientName().optional().describe('only the orders of this client'),
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
