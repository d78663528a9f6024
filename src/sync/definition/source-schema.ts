import { z } from 'zod'
import { checkDatabase, databaseUrl, driver, filePath, headers, httpUrl } from './addresses.ts'
import type { FlowContext } from './context.ts'
import { column, columns, duration, jsonata, report, text, whole } from './fields.ts'

const limits = () =>
  z
    .strictObject({
      timeout: duration('100ms', '24h').prefault('30s').describe('of a statement or a request'),
      fetchSize: whole(1, 100_000).prefault(1_000).describe('records handled at a time'),
      maxRows: whole(1, 1_000_000_000)
        .optional()
        .describe('more than that fails the poll; without it there is no limit'),
    })
    .transform(({ timeout, ...rest }) => ({ ...rest, timeoutMs: timeout }))
    .prefault({})

const cursor = () =>
  z
    .strictObject({
      field: column(),
      initial: z
        .union([z.string().min(1).max(256), z.number()], 'must be a text or a number')
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

const groupBy = () =>
  z
    .strictObject({
      children: z
        .record(column(), columns())
        .describe('name of the list in the item: the columns of its entries'),
    })
    .optional()
    .describe('consecutive records of one key become one item with lists')

const path = () =>
  z
    .string()
    .regex(/^[^.\p{Cc}]+(\.[^.\p{Cc}]+)*$/u, 'must be names joined by dots, such as data.items')
    .describe(
      'where the list of items stands, such as data.items; without it the answer is the list',
    )

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
      z.strictObject({ type: z.literal('link') }),
    ])
    .prefault({ type: 'none' })

function sql(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('sql'),
      driver: driver(),
      url: databaseUrl(context),
      query: text().describe(':cursor stands for the cursor'),
      itemQuery: text().optional().describe('reads one item, :pk stands for its key'),
      cursor: cursor(),
      fullScanEvery: fullScanEvery(),
      groupBy: groupBy(),
      limits: limits(),
    })
    .superRefine(checkDatabase)
    .transform(({ fullScanEvery, ...rest }) => ({ ...rest, fullScanEveryMs: fullScanEvery }))
}

function http(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('http'),
      url: httpUrl(context, ['cursor']).describe('{cursor} stands for the cursor'),
      headers: headers(context).prefault({}),
      items: path().optional(),
      paging: paging(),
      item: z
        .strictObject({
          url: httpUrl(context, ['pk']).describe('{pk} stands for the key'),
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

function file(context: FlowContext) {
  const csv = z.strictObject({
    delimiter: z.string().min(1).max(4).prefault(','),
    encoding: z.enum(['utf8', 'latin1']).prefault('utf8'),
    decimalComma: z
      .boolean()
      .prefault(false)
      .describe('values that are numbers with a decimal comma become numbers with a point'),
  })
  return z
    .strictObject({
      type: z.literal('file'),
      path: filePath(context).describe('a file, or several by * in its name'),
      format: z.enum(['csv', 'json', 'ndjson']),
      csv: csv.optional().describe('for format csv'),
      items: path().optional(),
      settle: duration('0s', '1h')
        .prefault('5s')
        .describe('a file that changed less than that ago is left for the next poll'),
      after: z.enum(['keep', 'archive', 'delete']).prefault('keep'),
      groupBy: groupBy(),
      limits: limits(),
    })
    .superRefine(({ format, ...source }, issues) => {
      for (const [key, owner] of [
        ['csv', 'csv'],
        ['items', 'json'],
      ] as const) {
        if (source[key] === undefined || format === owner) continue
        report(issues, { message: `is only for format ${owner}` }, [key])
      }
    })
    .transform(({ settle, csv: options, ...rest }) => ({
      ...rest,
      csv: options ?? csv.parse({}),
      settleMs: settle,
    }))
}

const orders = () =>
  z
    .strictObject({
      type: z.literal('payments.orders'),
      client: clientName().optional().describe('only the orders of this client'),
    })
    .describe('every change of an order of the payment side')

/** The name of a client of the payment side. */
export function clientName() {
  return z
    .string()
    .regex(/^(?! )[^\p{Cc}]{1,100}(?<! )$/u, 'must be the name of a client, 1 to 100 characters')
}

export function sourceSchema(context: FlowContext) {
  return z.discriminatedUnion('type', [sql(context), http(context), file(context), orders()])
}
