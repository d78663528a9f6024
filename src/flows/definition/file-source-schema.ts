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

const dateForms = ['yyyymmdd', 'ddmmyyyy', 'dd/mm/yyyy'] as const

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

const skipLines = () => whole(0, 1_000).prefault(0)

const csv = () =>
  z.strictObject({
    delimiter: z
      .string()
      .min(1)
      .max(4)
      .prefault(',')
      .meta({ description: 'between values', examples: [';'] }),
    encoding: encoding().meta({
      description:
        '`latin1` (read as Windows-1252), `utf16le`, `utf16be`, `cp437`, `cp850`, `cp852`, `cp858`, `cp860`, `cp865`, `cp866`, `cp1250`, `cp1251`, `cp1252`, `iso8859-15`, `macroman`',
      examples: ['cp850'],
    }),
    columns: z
      .array(column())
      .min(1)
      .max(4_096)
      .optional()
      .meta({
        description: 'the names of the columns of a file without a header',
        examples: [['codigo', 'descripcion', 'precio']],
      }),
    skipLines: skipLines().meta({
      description: 'lines before the header, such as the title of a report',
      examples: [0],
    }),
    quotes: z
      .enum(['strict', 'loose', 'none'])
      .prefault('strict')
      .meta({
        description:
          '`loose` allows a quote inside a value without quotes, such as `1/2"`; `none` reads every quote as text',
        examples: ['loose'],
      }),
    trailingDelimiter: z
      .boolean()
      .prefault(false)
      .meta({ description: 'lines end with a delimiter after their last value', examples: [true] }),
    decimalComma: z
      .union([z.boolean(), columns()], findingMessage({ code: 'MUST_BE_BOOLEAN_OR_COLUMNS' }))
      .prefault(false)
      .meta({
        description:
          '`true`: numbers such as `1.234,5` become `1234.5` in all columns but the key; or a list of columns',
        examples: [['precio']],
      }),
  })

const fixedColumn = () =>
  z
    .strictObject({
      name: column().meta({ description: 'name of the field', examples: ['cuenta'] }),
      start: whole(1, 1_000_000).meta({
        description: 'position of its first character, from 1',
        examples: [1],
      }),
      length: whole(1, 100_000).meta({ description: 'number of characters', examples: [8] }),
      type: z
        .enum(['text', 'integer', 'decimal', 'decimalComma', 'date'])
        .prefault('text')
        .meta({
          description:
            '`integer`, `decimal`, `decimalComma` give exact text (a sign may follow the digits), `date` gives `2026-01-31`. Blanks around it do not count; an empty value is null',
          examples: ['decimal'],
        }),
      decimals: whole(0, 20)
        .optional()
        .meta({
          description: 'decimals of a `decimal` without a point in the file',
          examples: [2],
        }),
      form: z
        .enum(dateForms)
        .prefault('yyyymmdd')
        .meta({
          description: 'form of a `date`: also `ddmmyyyy`, `dd/mm/yyyy`',
          examples: ['ddmmyyyy'],
        }),
    })
    .superRefine(({ type, decimals }, issues) => {
      if (decimals === undefined || type === 'decimal') return
      report(issues, { code: 'ONLY_FOR_DECIMAL' }, ['decimals'])
    })

const fixed = () =>
  z.strictObject({
    encoding: encoding().meta({ description: 'as `csv.encoding`', examples: ['cp850'] }),
    columns: z
      .array(fixedColumn())
      .min(1)
      .max(4_096)
      .meta({
        description: 'the columns; text between them does not count',
        examples: [[{ name: 'cuenta', start: 1, length: 8 }]],
      }),
    skipLines: skipLines().meta({ description: 'lines before the first record', examples: [0] }),
    mayEndEarly: z
      .boolean()
      .prefault(false)
      .meta({
        description: 'lines may end before their last column; without it such a line counts as cut',
        examples: [true],
      }),
  })

const sheet = () =>
  z.strictObject({
    sheet: z
      .union(
        [z.string().min(1).max(31), whole(1, 10_000)],
        findingMessage({ code: 'MUST_BE_SHEET' }),
      )
      .prefault(1)
      .meta({
        description: 'name of the sheet in any case, or its number from 1',
        examples: ['Precios'],
      }),
    headerRow: whole(1, 1_000)
      .prefault(1)
      .meta({
        description:
          'the row with the names of the columns; a column without a name does not count. Error cells of a column in `item.hash.ignore` count as null',
        examples: [2],
      }),
  })

const dbf = () =>
  z.strictObject({
    encoding: z
      .enum(fileEncodings)
      .optional()
      .meta({
        description: 'encoding of its texts; without it the code page that the file names',
        examples: ['cp850'],
      }),
    skip: columns()
      .optional()
      .meta({ description: 'columns that are not read', examples: [['MEMO']] }),
  })

/** A file whose last line has no end is accepted after this time without a change. */
export const unendedAfterMs = 15 * 60_000

/** Keys that belong to one format each. */
const keysOfFormats = () => ({
  csv: csv()
    .optional()
    .meta({
      description:
        'for format csv. Lines end with LF, CRLF or CR, also mixed. A last Ctrl-Z does not count; text after it fails the poll',
      examples: [{ delimiter: ';' }],
    }),
  fixed: fixed()
    .optional()
    .meta({
      description: 'required with `format: fixed`',
      examples: [{ columns: [{ name: 'cuenta', start: 1, length: 8 }] }],
    }),
  xlsx: sheet()
    .optional()
    .meta({
      description:
        'for format xlsx. Whole numbers beyond 2^53 stay exact. At most 5,000,000 cells, 32 Mi characters of shared texts, 256 characters in the name of a column',
      examples: [{ sheet: 'Lista' }],
    }),
  dbf: dbf()
    .optional()
    .meta({
      description:
        'for format dbf, dBase III to Visual FoxPro. Logicals are true, false or null; `I`, `Y`, `T`, `B` and nulls of Visual FoxPro work too',
      examples: [{ skip: ['MEMO'] }],
    }),
})

/** Keys of file sources, local or on a server. */
export const fileShape = () => ({
  format: z
    .enum(['csv', 'json', 'ndjson', 'fixed', 'xlsx', 'dbf'])
    .meta({ description: '`csv`, `json`, `ndjson`, `fixed`, `xlsx` or `dbf`', examples: ['csv'] }),
  ...keysOfFormats(),
  items: path()
    .optional()
    .meta({
      description:
        '`json` only: the place of the list, such as `data.items`; without it the document is the list. An entry or line that is no object is left out, and `/errors` names it; without any object the poll fails',
      examples: ['data.items'],
    }),
  settle: duration('0s', '1h')
    .prefault('5s')
    .meta({
      description:
        'a file that changed more recently waits for the next poll. An empty file, or a last line without its end, waits for 15 minutes; then it counts, with a warning in `/errors`',
      examples: ['5s'],
    }),
  ready: ready()
    .optional()
    .meta({
      description:
        'name of a marker file: `{name}.ok`, or `{stem}.ok` without the extension. The file counts when its marker exists and is not older; `after` applies to both',
      examples: ['{stem}.ok'],
    }),
  after: z
    .enum(['keep', 'archive', 'delete'])
    .prefault('keep')
    .meta({
      description:
        '`archive` moves the file into the folder `archive` beside it, `delete` deletes it; then no other flow may read it',
      examples: ['archive'],
    }),
  files: z
    .enum(['newest', 'all'])
    .optional()
    .meta({
      description:
        'for a path with `*`: `newest` reads only the newest file, as the whole list; `all` reads each as a part. Without it `newest` where the flow sends deletes, else `all`',
      examples: ['all'],
    }),
  groupBy: groupBy(),
  limits: limits(
    'longest wait for a server: for the connection, and then for each answer; no effect for local files',
  ),
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
      path: filePath(context).meta({
        description:
          'a file, or several by `*` in the name. Relative paths: to the working directory. Links are not followed',
        examples: ['/erp/out/articulos.csv'],
      }),
      ...fileShape(),
    })
    .superRefine(checkFileFormat)
    .transform(fileForm)
}
