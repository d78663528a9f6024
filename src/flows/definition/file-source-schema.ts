import { z } from 'zod'
import { filePath } from './addresses.ts'
import type { FlowContext } from './flow-context.ts'
import { groupBy, limits, path } from './source-fields.ts'
import { column, columns, duration, findingMessage, report, whole } from './value-schemas.ts'

/** latin1 is Windows-1252, which programs mean by it. They differ in €, dashes and curly quotes. */
export const fileEncodings = [
  'utf8',
  'latin1',
  'utf16le',
  'utf16be',
  'cp437',
  'cp850',
  'cp852',
  'cp858',
  'cp860',
  'cp865',
  'cp866',
  'cp1250',
  'cp1251',
  'cp1252',
  'iso8859-15',
  'macroman',
] as const

export const dateForms = ['yyyymmdd', 'ddmmyyyy', 'dd/mm/yyyy'] as const

const ready = () =>
  z
    .string()
    .max(128)
    .regex(
      /^(?!\.)(?!\{name\}$)(?=.*\{(?:name|stem)\})(?:\{(?:name|stem)\}|[^{}/\\\p{Cc}])+$/u,
      findingMessage({
        code: 'MUST_BE_MARKER_NAME',
        data: { name: '{name}', stem: '{stem}', example: '{name}.ok' },
      }),
    )

const encoding = () => z.enum(fileEncodings).prefault('utf8')

const skipLines = () =>
  whole(0, 1_000).prefault(0).describe('lines before the header, such as the title of a report')

const csv = () =>
  z.strictObject({
    delimiter: z.string().min(1).max(4).prefault(','),
    encoding: encoding(),
    columns: z
      .array(column())
      .min(1)
      .max(4_096)
      .optional()
      .describe('names of the columns of a file without a header'),
    skipLines: skipLines(),
    quotes: z
      .enum(['strict', 'loose', 'none'])
      .prefault('strict')
      .describe('loose takes a quote inside a value, such as 1/2"; none takes all as they are'),
    trailingDelimiter: z
      .boolean()
      .prefault(false)
      .describe('lines end with a delimiter behind their last value'),
    decimalComma: z
      .union([z.boolean(), columns()], findingMessage({ code: 'MUST_BE_BOOLEAN_OR_COLUMNS' }))
      .prefault(false)
      .describe(
        'numbers with a decimal comma get a point, 1.234 becomes 1234: in the columns of the list, which have nothing else, or in all but the key',
      ),
  })

const fixedColumn = () =>
  z
    .strictObject({
      name: column(),
      start: whole(1, 1_000_000).describe('of its first character, from 1'),
      length: whole(1, 100_000),
      type: z
        .enum(['text', 'integer', 'decimal', 'decimalComma', 'date'])
        .prefault('text')
        .describe('text is cut of its blanks; numbers and dates are checked, and nothing is null'),
      decimals: whole(0, 20)
        .optional()
        .describe('of a decimal without its point: 0001250 with 2 is 12.50'),
      form: z.enum(dateForms).prefault('yyyymmdd').describe('of a date'),
    })
    .superRefine(({ type, decimals }, issues) => {
      if (decimals === undefined || type === 'decimal') return
      report(issues, { code: 'ONLY_FOR_DECIMAL' }, ['decimals'])
    })

const fixed = () =>
  z.strictObject({
    encoding: encoding(),
    columns: z.array(fixedColumn()).min(1).max(4_096),
    skipLines: skipLines(),
    mayEndEarly: z
      .boolean()
      .prefault(false)
      .describe('lines may end before their last column; without it such a line is cut'),
  })

const sheet = () =>
  z.strictObject({
    sheet: z
      .union(
        [z.string().min(1).max(31), whole(1, 10_000)],
        findingMessage({ code: 'MUST_BE_SHEET' }),
      )
      .prefault(1)
      .describe('name of the sheet, or its number from 1'),
    headerRow: whole(1, 1_000).prefault(1).describe('the row with the names of the columns'),
  })

const dbf = () =>
  z.strictObject({
    encoding: z
      .enum(fileEncodings)
      .optional()
      .describe('of its texts; without it the one that the file names'),
    skip: columns().optional().describe('columns that are not read, such as memos'),
  })

/** A file whose last line has no end is accepted after this time without a change. */
export const unendedAfterMs = 15 * 60_000

/** Keys of file sources, local or on a server. */
export const fileShape = () => ({
  format: z.enum(['csv', 'json', 'ndjson', 'fixed', 'xlsx', 'dbf']),
  csv: csv().optional().describe('for format csv'),
  fixed: fixed().optional().describe('for format fixed: columns by their place in the line'),
  xlsx: sheet().optional().describe('for format xlsx'),
  dbf: dbf().optional().describe('for format dbf'),
  items: path().optional(),
  settle: duration('0s', '1h')
    .prefault('5s')
    .describe('a file that changed less than that ago is left for the next poll'),
  ready: ready()
    .optional()
    .describe('name of the marker beside a file that says it is complete, such as {name}.ok'),
  after: z.enum(['keep', 'archive', 'delete']).prefault('keep'),
  files: z
    .enum(['newest', 'all'])
    .optional()
    .describe(
      'of several files: newest reads the newest one only, as the whole list; all reads each as a part. Without it newest where the flow sends deletes, else all',
    ),
  groupBy: groupBy(),
  limits: limits(),
})

type GivenFile = z.output<z.ZodObject<ReturnType<typeof fileShape>>>

const owners = [
  ['csv', 'csv'],
  ['fixed', 'fixed'],
  ['xlsx', 'xlsx'],
  ['dbf', 'dbf'],
  ['items', 'json'],
] as const

/** Reports keys of another format, and keys that need a pattern of files. */
export function checkFileFormat(
  source: GivenFile & { path: string },
  issues: z.RefinementCtx,
): void {
  if (source.files !== undefined && !source.path.includes('*')) {
    report(issues, { code: 'ONLY_FOR_STAR' }, ['files'])
  }
  for (const [key, owner] of owners) {
    if (source[key] === undefined || source.format === owner) continue
    report(issues, { code: 'ONLY_FOR_FORMAT', data: { format: owner } }, [key])
  }
  const named = [
    [['csv', 'columns'], source.csv?.columns ?? []],
    [['fixed', 'columns'], (source.fixed?.columns ?? []).map(({ name }) => name)],
  ] as const
  for (const [key, names] of named) {
    const twice = names.find((name, index) => names.indexOf(name) !== index)
    if (twice === undefined) continue
    const data = { column: JSON.stringify(twice) }
    report(issues, { code: 'NAMES_COLUMN_TWICE', data }, [...key])
  }
  if (source.format === 'fixed' && !source.fixed) {
    report(issues, { code: 'NEEDS_COLUMN_PLACES' }, ['format'])
  }
}

/**
 * A file source as the engine uses it: durations in milliseconds, options with defaults. Options of other formats stay absent,
 * so that older definitions keep their form.
 */
export function fileForm<T extends GivenFile>({ settle, ...rest }: T) {
  const { columns, skipLines, quotes, trailingDelimiter, ...plain } = rest.csv ?? csv().parse({})
  return {
    ...rest,
    csv: {
      ...plain,
      ...(columns && { columns }),
      ...(skipLines > 0 && { skipLines }),
      ...(quotes !== 'strict' && { quotes }),
      ...(trailingDelimiter && { trailingDelimiter }),
    },
    ...(rest.format === 'xlsx' && { xlsx: rest.xlsx ?? sheet().parse({}) }),
    settleMs: settle,
  }
}

export function fileSource(context: FlowContext) {
  return z
    .strictObject({
      type: z.literal('file'),
      path: filePath(context).describe('a file, or several by * in its name'),
      ...fileShape(),
    })
    .superRefine(checkFileFormat)
    .transform(fileForm)
}
