import { z } from 'zod'
import { Secret } from '../../domain/secret.ts'
import { checkDatabase, databaseUrl, headers, httpUrl, sourceDriver } from './addresses.ts'
import type { FlowContext } from './context.ts'
import {
  column,
  duration,
  exactNumber,
  jsonata,
  secretText,
  text,
  timeZone,
  whole,
} from './fields.ts'
import { fileSource } from './file-source-schema.ts'
import { oauth } from './oauth-schema.ts'
import { requestBody } from './request-body.ts'
import { sftpSource } from './sftp-source-schema.ts'
import { groupBy, limits, path } from './source-fields.ts'

const cursor = () =>
  z
    .strictObject({
      field: column(),
      initial: z
        .union([z.string().min(1).max(256), exactNumber()], 'must be a text or a number')
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

const parameter = () => z.string().regex(/^[\w.[\]-]{1,64}$/, 'must be the name of a parameter')

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

/** MySQL has no truth values but 1 and 0; the text `true` is 0 to it. */
const truth = (given: boolean, driver: string) =>
  literal(driver === 'mysql' ? Number(given) : given)

/** Names and values of a query; a number is bound as its text, a truth value as its database would write it. */
const parameters = (context: FlowContext) =>
  z
    .record(
      z
        .string()
        .regex(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/, 'must be a name of letters, digits and _')
        .regex(/^(?!(?:cursor|pk|key_\w+)$)/, 'is a name of the service itself'),
      z.union(
        [secretText(context), exactNumber().transform(literal), z.boolean()],
        'must be a text, a number, true or false',
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
      query: text().describe('one SELECT, or WITH … SELECT; :cursor stands for the cursor'),
      timeZone: timeZone()
        .optional()
        .describe('of times in columns without a zone, such as DATETIME; without it UTC'),
      itemQuery: text().optional().describe('reads one item, :pk stands for its key'),
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

/** Of XML: of a record, and of the paths that lead to it. */
const xml = () =>
  z.strictObject({
    fields: z
      .record(column(), xmlPath())
      .optional()
      .describe('field: its path in the record, such as Precio/@moneda; without it all there is'),
    namespaces: z
      .record(z.string().regex(/^[A-Za-z_][\w.-]{0,63}$/, 'must be a prefix'), text())
      .prefault({})
      .describe('prefixes for paths; a name without one is met in any namespace'),
  })

const xmlPath = () => z.string().min(1).max(1_024)

const method = () => z.enum(['GET', 'POST']).optional().describe('without it GET, with body POST')

function http(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('http'),
      url: httpUrl(context, ['cursor']).describe('{cursor} stands for the cursor'),
      method: method(),
      headers: headers(context).prefault({}),
      auth: oauth(context),
      body: requestBody(context, ['cursor', 'page', 'offset', 'size', 'next'])
        .optional()
        .describe('{cursor} stands for the cursor; {page}, {offset}, {size}, {next} for the page'),
      items: path().optional(),
      xml: xml().optional().describe('answers are XML'),
      paging: paging(),
      item: z
        .strictObject({
          url: httpUrl(context, ['pk']).describe('{pk} stands for the key'),
          method: method(),
          body: requestBody(context, ['pk']).optional().describe('{pk} stands for the key'),
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
    .describe('every movement of the reports that the payment side has taken in')

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
    .regex(/^(?! )[^\p{Cc}]{1,100}(?<! )$/u, 'must be the name of a client, 1 to 100 characters')
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
