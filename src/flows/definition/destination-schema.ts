import { z } from 'zod'
import { checkDatabase, checkWrittenDatabase, databaseUrl, driver, filePath } from './addresses.ts'
import { common, retry, timeoutMs } from './destination-fields.ts'
import type { FlowContext } from './flow-context.ts'
import { httpDestination } from './http-destination-schema.ts'
import { clientName } from './source-schema.ts'
import { column, findingMessage, oneOrMore, whole } from './value-schemas.ts'

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
  return z.discriminatedUnion('type', [
    stores(),
    pos(),
    httpDestination(context),
    sql(context),
    file(context),
  ])
}
