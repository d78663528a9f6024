import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import iconv from 'iconv-lite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createItemReader } from '../../src/flows/item/item.ts'
import { SourceError, type SourceRow } from '../../src/flows/types.ts'
import { sentenceOf } from '../../src/texts/reason.ts'
import { dbfFile } from './dbf-file.ts'
import { flowText, problemsOf } from './definition-support.ts'
import { flowOf, openTestSource, readAll } from './sources-support.ts'
import { workbook, zipFile } from './zip-file.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sources-forms-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function read(bytes: string | Buffer, source: object): Promise<SourceRow[]> {
  const path = join(folder, 'a.dat')
  await writeFile(path, bytes)
  const opened = openTestSource(flowOf({ type: 'file', path, settle: '0s', ...source }))
  return await readAll(opened.source)
}

const failureOf = async (bytes: string | Buffer, source: object): Promise<string> => {
  const error = await read(bytes, source).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(SourceError)
  return (error as Error).message.replace(/^file source: \S+a\.dat /, '')
}

// CSV

const csv = (options: object, more: object = {}) => ({ format: 'csv', csv: options, ...more })
const ids = (rows: SourceRow[]) => rows.map(({ id }) => id)

test('a file without a header has the given column names, in their order', async () => {
  expect(await read('1,a\n2,b\n', csv({ columns: ['id', 't'] }))).toEqual([
    { id: '1', t: 'a' },
    { id: '2', t: 'b' },
  ])
  expect(await failureOf('1,a\n2,b,c\n', csv({ columns: ['id', 't'] }))).toBe(
    'has a record with another number of values than the names of csv.columns, at line 2',
  )
  expect(await read('', csv({ columns: ['id'] }))).toEqual([])
})

test('lines before the header are skipped, and counted in the line numbers of errors', async () => {
  for (const end of ['\n', '\r\n', '\r']) {
    const text = ['Listado "de', '', 'id,t', '1,a', '2,b,c', ''].join(end)
    expect(await failureOf(text, csv({ skipLines: 2 }))).toContain('at line 5')
    const good = ['Listado', 'id,t', '1,a', ''].join(end)
    expect(await read(good, csv({ skipLines: 1 }))).toEqual([{ id: '1', t: 'a' }])
  }
})

test('an inch mark is part of a value with loose quotes, and every mark is without quotes', async () => {
  const text = 'id;t;u\n1;1/2" codo;"a;b"\n'
  expect(await failureOf(text, csv({ delimiter: ';' }))).toContain('(csv.quotes)')
  expect(await read(text, csv({ delimiter: ';', quotes: 'loose' }))).toEqual([
    { id: '1', t: '1/2" codo', u: 'a;b' },
  ])
  expect(await read('id;t\n1;"1/2" codo\n', csv({ delimiter: ';', quotes: 'none' }))).toEqual([
    { id: '1', t: '"1/2" codo' },
  ])
})

test('Ctrl-Z ends a DOS file, and text behind it is refused', async () => {
  expect(ids(await read('id\r\n1\r\n\x1a', csv({})))).toEqual(['1'])
  expect(ids(await read('id\r\n1\x1a\x1a\r\n', csv({})))).toEqual(['1'])
  expect(await failureOf('id\n1\n\x1a2\n', csv({}))).toBe(
    'has text behind the sign of its end (Ctrl-Z)',
  )
})

test('a delimiter after the last value is no column', async () => {
  expect(await read('id;t;\n1;a;\n', csv({ delimiter: ';', trailingDelimiter: true }))).toEqual([
    { id: '1', t: 'a' },
  ])
  expect(await failureOf('id;\n1;\n2\n', csv({ delimiter: ';', trailingDelimiter: true }))).toBe(
    'has no delimiter behind the last value at line 3 (csv.trailingDelimiter)',
  )
})

test.each(['cp850', 'cp437', 'cp858', 'cp1252', 'iso8859-15', 'macroman', 'utf16le'] as const)(
  'a file in %s is decoded, whatever the size of its pieces',
  async (encoding) => {
    const word = 'Ñandú ½ año'.replace(
      '½',
      encoding === 'iso8859-15' || encoding === 'macroman' ? '' : '½',
    )
    const lines = Array.from({ length: 5_000 }, (_, index) => `${index};${word}`)
    const bytes = iconv.encode(`id;t\r\n${lines.join('\r\n')}\r\n`, encoding)
    const rows = await read(bytes, csv({ delimiter: ';', encoding }))
    expect(rows).toHaveLength(5_000)
    expect(new Set(rows.map(({ t }) => t))).toEqual(new Set([word]))
  },
)

test('bytes that are not characters of the encoding are refused', async () => {
  expect(await failureOf(Buffer.from('id\n\x81\n', 'latin1'), csv({ encoding: 'cp1250' }))).toBe(
    'holds bytes that are no character of cp1250',
  )
})

// Fixed width

const fixed = (columns: object[], options: object = {}) => ({
  format: 'fixed',
  fixed: { columns, ...options },
})
const price = [
  { name: 'id', start: 1, length: 6 },
  { name: 'n', start: 7, length: 8, type: 'decimal', decimals: 2 },
  { name: 'd', start: 15, length: 8, type: 'date' },
]

test('fixed-width columns have their positions; numbers and dates are exact text', async () => {
  expect(
    await read(
      'A-1   0000125020260131\r\n\r\nA-2   9999999-00000000\r\nA-3   \t       20260228\r\n',
      fixed(price),
    ),
  ).toEqual([
    { id: 'A-1', n: '12.50', d: '2026-01-31' },
    { id: 'A-2', n: '-99999.99', d: null },
    { id: 'A-3', n: null, d: '2026-02-28' },
  ])
  const types = [
    { name: 'id', start: 1, length: 20, type: 'integer' },
    { name: 'c', start: 21, length: 10, type: 'decimalComma' },
    { name: 'd', start: 31, length: 10, type: 'date', form: 'dd/mm/yyyy' },
  ]
  expect(await read('00009007199254740993  1.234,5031/01/2026\n', fixed(types))).toEqual([
    { id: '9007199254740993', c: '1234.50', d: '2026-01-31' },
  ])
})

test('a line that is too short fails the read, with its number', async () => {
  expect(await failureOf('A-1   00001250202601\n', fixed(price))).toBe(
    'has a line of 20 characters, line 1; its columns need 22 (fixed.mayEndEarly)',
  )
})

test('lines may end early where the definition allows it', async () => {
  expect(await read('A-1   00001250\n', fixed(price, { mayEndEarly: true }))).toEqual([
    { id: 'A-1', n: '12.50', d: null },
  ])
})

// DBF

const columns = [
  { name: 'ID', type: 'C', length: 6 },
  { name: 'NOMBRE', type: 'C', length: 300 },
  { name: 'PRECIO', type: 'N', length: 20, decimals: 2 },
  { name: 'ALTA', type: 'D', length: 8 },
  { name: 'ACTIVO', type: 'L', length: 1 },
]
const dbf = { format: 'dbf' }
const row = [
  ' ',
  'A1',
  iconv.encode('Ñandú', 'cp850'),
  '12345678901234567.10',
  '20260131',
  'T',
] as const

test('a DBF file is read in the code page that it names, without deleted records', async () => {
  const bytes = dbfFile(columns, [
    row,
    ['*', 'A2', 'gone', '1', '20260131', 'F'],
    [' ', 'A3', '', '', '', '?'],
    [' ', 'A4', ' x ', '-0.50', '00000000', 'f'],
  ])
  expect(await read(bytes, dbf)).toEqual([
    { ID: 'A1', NOMBRE: 'Ñandú', PRECIO: '12345678901234567.10', ALTA: '2026-01-31', ACTIVO: true },
    { ID: 'A3', NOMBRE: '', PRECIO: null, ALTA: null, ACTIVO: null },
    { ID: 'A4', NOMBRE: ' x', PRECIO: '-0.50', ALTA: null, ACTIVO: false },
  ])
})

test('types of Visual FoxPro are exact too, and its nulls are null', async () => {
  const amount = Buffer.alloc(8)
  amount.writeBigInt64LE(-12_345_678_901_234_567n)
  const time = Buffer.alloc(8)
  time.writeUInt32LE(2_461_072)
  time.writeUInt32LE(37_230_000, 4)
  const whole = Buffer.alloc(4)
  whole.writeInt32LE(-7)
  const double = Buffer.alloc(8)
  double.writeDoubleLE(0.1)
  const bytes = dbfFile(
    [
      { name: 'ID', type: 'I', length: 4 },
      { name: 'Y', type: 'Y', length: 8 },
      { name: 'T', type: 'T', length: 8 },
      { name: 'B', type: 'B', length: 8, flags: 2 },
      { name: 'C', type: 'C', length: 3, flags: 2 },
      { name: '_NullFlags', type: '0', length: 1 },
    ],
    [
      [' ', whole, amount, time, double, 'abc', Buffer.from([0])],
      [' ', whole, amount, time, double, '', Buffer.from([2])],
    ],
    { version: 0x30, language: 0x03, end: '' },
  )
  const same = { ID: -7, Y: '-1234567890123.4567', T: '2026-01-31T10:20:30', B: 0.1 }
  expect(await read(bytes, dbf)).toEqual([
    { ...same, C: 'abc' },
    { ...same, C: null },
  ])
})

test('an unread column of variable length does not shift the null flags', async () => {
  const bytes = dbfFile(
    [
      { name: 'ID', type: 'C', length: 1 },
      { name: 'V', type: 'V', length: 4, flags: 2 },
      { name: 'A', type: 'C', length: 1, flags: 2 },
      { name: 'Q', type: 'Q', length: 4 },
      { name: 'B', type: 'C', length: 1, flags: 2 },
      { name: '_NullFlags', type: '0', length: 1 },
    ],
    // Length of V, null of V, null of A, length of Q, null of B.
    [0b00011, 0b00100, 0b10001].map((flags, id) => [
      ' ',
      String(id),
      'v',
      'a',
      'q',
      'b',
      Buffer.from([flags]),
    ]),
    { version: 0x32, language: 0x03, end: '' },
  )
  expect(await read(bytes, { ...dbf, dbf: { skip: ['V', 'Q'] } })).toEqual([
    { ID: '0', A: 'a', B: 'b' },
    { ID: '1', A: null, B: 'b' },
    { ID: '2', A: 'a', B: null },
  ])
})

const unnamed = dbfFile(columns, [row], { language: 0 })
test.each([
  [dbfFile(columns, [row]).subarray(0, -10), 'is cut: its header says 1 records, and there are 0'],
  [
    dbfFile(columns, [row, row], { count: 1 }),
    'has more records than its header says: another program is writing it',
  ],
  [
    dbfFile(columns, [['?', 'A1', 'x', '1', '', '']]),
    'has no record where record 1 should begin: it is damaged',
  ],
  [
    unnamed,
    'does not name its code page, and record 1 has a letter beyond ASCII in the column NOMBRE (dbf.encoding)',
  ],
  [
    dbfFile([...columns, { name: 'OBS', type: 'M', length: 10 }], [[...row, '1']], {
      version: 0x83,
    }),
    'has the memo OBS, which is in another file and is not read; leave it out by dbf: { skip: [OBS] }',
  ],
  [
    Buffer.from('id,name\n'.repeat(10)),
    'is no DBF file that is known (dBase III to Visual FoxPro)',
  ],
  [Buffer.from(''), 'is no DBF file: it is too short'],
])(
  'a DBF file that cannot be read correctly is refused with the reason (%#)',
  async (bytes, failure) => {
    expect(await failureOf(bytes, dbf)).toBe(failure)
  },
)

test('a memo can be left out, and the code page can be set', async () => {
  const memo = dbfFile([...columns, { name: 'OBS', type: 'M', length: 10 }], [[...row, '1']])
  expect(
    Object.keys((await read(memo, { ...dbf, dbf: { skip: ['OBS'] } }))[0] ?? {}),
  ).not.toContain('OBS')
  expect((await read(unnamed, { ...dbf, dbf: { encoding: 'cp850' } }))[0]?.NOMBRE).toBe('Ñandú')
  expect(await failureOf(memo, { ...dbf, dbf: { skip: ['X'] } })).toBe('has no column X (dbf.skip)')
})

// xlsx

const xlsx = { format: 'xlsx' }
const cell = (r: string, t: string, v: string, s = 0) =>
  `<c r="${r}" t="${t}" s="${s}"><v>${v}</v></c>`
const header =
  '<row r="1"><c r="A1" t="inlineStr"><is><t> id </t></is></c><c r="C1" t="s"><v>0</v></c></row>'
const shared =
  '<si><t>valor</t></si><si><r><t>a</t></r><r><t xml:space="preserve"> b_x000D_</t></r><rPh><t>z</t></rPh></si>'
const formats =
  '<numFmts><numFmt numFmtId="170" formatCode="[$-409]dd\\-mmm\\-yy &quot;h&quot;"/><numFmt numFmtId="171" formatCode="[h]:mm"/></numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="20"/><xf numFmtId="170"/><xf numFmtId="171"/><xf numFmtId="4"/></cellXfs>'

test.each<[string, unknown]>([
  [cell('C2', 's', '1'), 'a b\r'],
  [cell('C2', 'n', '19.989999999999998'), 19.99],
  [cell('C2', 'n', '9007199254740993'), 9007199254740993n],
  [cell('C2', 'n', '46053.5', 6), 46053.5],
  [cell('C2', 'n', '46053', 1), '2026-01-31'],
  [cell('C2', 'n', '46053.430902777778', 2), '2026-01-31T10:20:30'],
  [cell('C2', 'n', '0.430902777777778', 3), '10:20:30'],
  [cell('C2', 'n', '46053', 4), '2026-01-31'],
  [cell('C2', 'n', '1.5', 5), 1.5],
  [cell('C2', 'n', '59', 1), '1900-02-28'],
  [cell('C2', 'n', '61', 1), '1900-03-01'],
  [cell('C2', 'b', '1'), true],
  [cell('C2', 'str', 'x'), 'x'],
  ['<c r="C2" t="str"><f>""</f><v></v></c>', null],
  ['<c r="C2" s="1"/>', null],
])('a cell has the value: %s', async (given, value) => {
  const bytes = workbook(
    `${header}<row r="2"><c r="A2" t="inlineStr"><is><t>1</t></is></c><c r="B2"><v>5</v></c>${given}</row><row r="3"/>`,
    { shared, formats },
  )
  expect(await read(bytes, { ...xlsx, xlsx: { sheet: 'Lista' } })).toEqual([
    { id: '1', valor: value },
  ])
})

test('dates may count from 1904, cells may lack positions, and the header may be on a later row', async () => {
  const bytes = workbook(
    '<row r="1"><c t="str"><v>Listado</v></c></row><row r="3"><c t="str"><v>id</v></c><c t="str"><v>d</v></c></row><row r="4"><c><v>1</v></c><c s="1"><v>1</v></c></row>',
    { formats, more: '<x:workbookPr date1904="1"/>' },
  )
  expect(await read(bytes, { ...xlsx, xlsx: { headerRow: 3 } })).toEqual([
    { id: 1, d: '1904-01-02' },
  ])
})

const good = workbook(`${header}<row r="2">${cell('A2', 'n', '1')}</row>`, { shared })
test.each([
  [
    workbook(`<row r="1">${cell('A1', 'str', 'id')}${cell('B1', 'e', '#REF!')}</row>`),
    'has the error #REF! in the cell B1 of the sheet "Lista"',
  ],
  [
    workbook(`${header}<row r="2">${'<c>'.repeat(100_000)}`, { shared }),
    'is nested deeper than 1000 levels',
  ],
  [
    workbook(`<row r="1">${cell('A1', 'str', 'x'.repeat(257))}</row>`),
    'has a name of more than 256 characters for the column A, in row 1',
  ],
  [
    workbook(`${header}<row r="2">${cell('A2', 's', '2').repeat(9)}</row>`, {
      shared: `${shared}<si><t>${'y'.repeat(131_072)}</t></si>`,
    }),
    'has more than 1048576 characters in row 2',
  ],
  [
    workbook(header, { shared, formats: `<cellXfs>${'<xf/>'.repeat(100_001)}</cellXfs>` }),
    'has more than 100000 styles of cells',
  ],
  [
    workbook(`${header}<row r="2">${cell('C2', 's', '9')}</row>`),
    'is damaged: the text of the cell C1 is missing',
  ],
  [
    workbook(`<row r="1">${cell('A1', 'str', 'a')}${cell('B1', 'str', 'a')}</row>`),
    'has the column "a" twice, in row 1',
  ],
  [workbook('<row r="2"/>'), 'has no names of columns in row 1 (xlsx.headerRow)'],
  [
    workbook('<row r="1">'),
    expect.stringMatching(/^is damaged: its part xl\/worksheets\/s.xml is not well-formed XML/),
  ],
  [good.subarray(0, -30), 'is no xlsx workbook that can be read: it is cut or damaged'],
  [zipFile({ 'a.txt': 'x' }), 'is no xlsx workbook'],
  [Buffer.from('id,name\n'), 'is no xlsx workbook that can be read: it is cut or damaged'],
])(
  'a workbook that cannot be read correctly is refused with the reason (%#)',
  async (bytes, failure) => {
    expect(await failureOf(bytes, xlsx)).toEqual(failure)
  },
)

test('a workbook with more shared texts or cells than the limit is refused with the reason', {
  tags: ['night'],
}, async () => {
  const texts = workbook(header, { shared: '<si/>'.repeat(4 * 1_048_576 + 1) })
  expect(await failureOf(texts, xlsx)).toBe(
    'has more than 4194304 shared texts; saved as CSV it can be read',
  )
  const cells = workbook(`${header}<row r="2">${'<c/>'.repeat(5_000_001)}</row>`, { shared })
  expect(await failureOf(cells, xlsx)).toBe(
    'has more than 5000000 cells; saved as CSV it can be read',
  )
})

test('the error for a missing sheet names the existing ones', async () => {
  expect(await failureOf(good, { ...xlsx, xlsx: { sheet: 'Otra' } })).toBe(
    'has no sheet "Otra" (there are "Lista")',
  )
  const broken = Buffer.from(good)
  const at = broken.indexOf('PK\x01\x02')
  // The checksum of the first part in the directory.
  broken.writeUInt32LE(1, at + 16)
  expect(await failureOf(broken, xlsx)).toContain('cut or damaged')
})

test('names of parts, sheets and cells ignore case, and a phonetic text is no text', async () => {
  const bytes = workbook(
    '<row r="1"><c r="a1" t="str"><v>id</v></c><c r="b1" t="str"><v>n</v></c></row>' +
      '<row r="2"><c r="a2" t="b"><v>true</v></c><c r="b2" t="inlineStr"><is><r><t>東京</t></r><rPh sb="0" eb="2"><t>トウキョウ</t></rPh></is></c></row>',
    {
      partNames: (name) =>
        name.replace('xl/', 'XL\\').replace('sheet', 'SHEET').replace('_rels', '_RELS'),
    },
  )
  expect(await read(bytes, { ...xlsx, xlsx: { sheet: 'LISTA' } })).toEqual([
    { id: true, n: '東京' },
  ])
})

/** Each row as an item or as the reason against it, for a flow with the key field `key`. */
async function itemsOf(rows: SourceRow[], key: string, ignore: string[] = [], more: object = {}) {
  const hash = { ignore, trim: false, emptyAsNull: false, decimals: {} }
  const reader = createItemReader({ item: { key: [key], hash }, ...more } as never)
  const made = await Promise.all(rows.map((one) => reader.read(one)))
  return made.map((one) => {
    if ('item' in one) return one.item.value
    return 'problem' in one ? sentenceOf(one.problem.why, 'en') : one
  })
}

test.each([
  [
    'an EAN in a date cell',
    cell('C2', 'n', '7790001234567', 1),
    'has the number 7790001234567 as a date after the year 9999',
  ],
  [
    'an EAN in a time cell',
    cell('C2', 'n', '7790001234567', 3),
    'has the number 7790001234567 as a date after the year 9999',
  ],
  ['a negative date', cell('C2', 'n', '-1', 1), 'has the negative number -1 as a date'],
  ['a negative time', cell('C2', 'n', '-0.5', 3), 'has the negative number -0.5 as a date'],
  ['a number that is none', cell('C2', 'n', '1,5'), 'has no number'],
  ['a type that no workbook has', cell('C2', 'q', '1'), 'has a value of an unknown type'],
])('xlsx: %s refuses its row only, and only if its column is used', async (_, bad, reason) => {
  const bytes = workbook(
    `${header}<row r="2">${cell('A2', 'n', '1')}${bad}</row><row r="3">${cell('A3', 'n', '2')}${cell('C3', 'n', '5')}</row>`,
    { shared, formats },
  )
  const rows = await read(bytes, xlsx)
  expect(await itemsOf(rows, 'id')).toEqual([
    expect.stringContaining(`the field "valor" ${reason} in the cell C2 of the sheet "Lista"`),
    { id: 2, valor: 5 },
  ])
  expect(await itemsOf(rows, 'id', ['valor'])).toEqual([
    { id: 1, valor: null },
    { id: 2, valor: 5 },
  ])
})

test.each([
  ['N', '********'],
  ['N', '-'],
  ['N', '.'],
  ['F', '1.2E+05'],
  ['N', '12A'],
  ['D', '20260231'],
  ['L', 'x'],
])(
  'DBF: %s cannot hold %j: its record only is refused, and only if its column is used',
  async (type, text) => {
    const length = type === 'L' ? 1 : 8
    const bytes = dbfFile(
      [
        { name: 'ID', type: 'C', length: 2 },
        { name: 'V', type, length },
      ],
      [
        [' ', 'A1', text],
        [' ', 'A2', ''],
      ],
    )
    const rows = await read(bytes, dbf)
    expect(await itemsOf(rows, 'ID')).toEqual([
      `the field "V" has no value of type ${type} in the column V, record 1`,
      { ID: 'A2', V: null },
    ])
    expect(await itemsOf(rows, 'ID', ['V'])).toEqual([
      { ID: 'A1', V: null },
      { ID: 'A2', V: null },
    ])
  },
)

test('DBF: a text that is not of the code page refuses its record only', async () => {
  const bytes = dbfFile(columns, [row, [' ', 'A2', Buffer.from([0xff]), '1', '', '']])
  const rows = await read(bytes, { ...dbf, dbf: { encoding: 'utf8' } })
  const refused = 'the field "NOMBRE" has no value of type C in the column NOMBRE, record'
  expect(await itemsOf(rows, 'ID')).toEqual([`${refused} 1`, `${refused} 2`])
})

test('fixed width: a cell that is no number or date refuses its line only', async () => {
  const lines = ['A-1   00X0125020260131', 'A-2   0000125020260132', 'A-3   0000125020260131', '']
  expect(await itemsOf(await read(lines.join('\n'), fixed(price)), 'id')).toEqual([
    'the field "n" has no number in the column "n", line 1 (type decimal)',
    'the field "d" has no date in the column "d", line 2 (type date)',
    { id: 'A-3', n: '12.50', d: '2026-01-31' },
  ])
})

const twoCells = workbook(
  `<row r="1">${cell('A1', 'str', 'id')}${cell('B1', 'str', 'cost')}${cell('C1', 'str', 'b')}</row>
   <row r="2">${cell('A2', 'n', '1')}${cell('B2', 'e', '#N/A')}${cell('C2', 'n', '5')}</row>`,
)
test.each<[boolean, object]>([
  [true, {}],
  [true, { fields: { c: 'cost' } }],
  [true, { fields: { c: { from: 'cost', type: 'decimal', optional: true } } }],
  [true, { map: '{ "c": $exists(cost) ? cost : 0 }' }],
  [true, { map: '$merge([$, { "x": 1 }])' }],
  [true, { map: '{ "b": b }', filter: 'cost > 1' }],
  [false, { fields: { c: 'b' } }],
  [false, { map: '{ "b": b }' }],
])(
  'an unreadable value of an ignored column is never sent as empty: %s %j',
  async (isUsed, rules) => {
    const rows = await read(twoCells, xlsx)
    const [made] = await itemsOf(rows, 'id', ['cost'], { destinations: [rules] })
    if (isUsed) expect(made).toContain('the field "cost" has the error #N/A')
    else expect(made).toEqual({ id: 1, cost: null, b: 5 })
  },
)

test('an error or a formula without a value is refused, unless hash.ignore names its column', async () => {
  const bytes = workbook(
    `<row r="1">${cell('A1', 'str', 'id')}${cell('B1', 'str', 'price')}${cell('C1', 'str', 'cost')}</row>
     <row r="2">${cell('A2', 'n', '1')}${cell('B2', 'n', '5')}${cell('C2', 'e', '#N/A')}</row>
     <row r="3">${cell('A3', 'n', '2')}${cell('B3', 'n', '6')}<c r="C3"><f>1+1</f></c></row>
     <row r="4">${cell('A4', 'n', '3')}<c r="B4"><f>1+1</f><v></v></c></row>
     <row r="5"><c r="A5" t="e"><v>#NAME?</v></c>${cell('B5', 'n', '7')}</row>`,
  )
  const rows = await read(bytes, xlsx)
  const readAs = async (ignore: string[]) => {
    const hash = { ignore, trim: false, emptyAsNull: false, decimals: {} }
    const reader = createItemReader({ item: { key: ['id'], hash } } as never)
    const made = await Promise.all(rows.map((row) => reader.read(row)))
    return made.map((one) =>
      'item' in one
        ? one.item.value
        : 'problem' in one
          ? { pk: one.problem.pk, message: sentenceOf(one.problem.why, 'en') }
          : one,
    )
  }
  const unread = 'has a formula without a computed value in the cell'
  const inSheet = 'of the sheet "Lista"; open and save the workbook in a spreadsheet program'
  expect(await readAs(['cost'])).toEqual([
    { id: 1, price: 5, cost: null },
    { id: 2, price: 6, cost: null },
    { pk: '3', message: `the field "price" ${unread} B4 ${inSheet}` },
    {
      pk: null,
      message: 'the field "id" has the error #NAME? in the cell A5 of the sheet "Lista"',
    },
  ])
  expect(await readAs([])).toMatchObject([
    { pk: '1', message: 'the field "cost" has the error #N/A in the cell C2 of the sheet "Lista"' },
    { pk: '2', message: `the field "cost" ${unread} C3 ${inSheet}` },
    { pk: '3' },
    { pk: null },
  ])
})

// Definitions

const file = (more: string) => ({ source: `source: { type: file, path: a, ${more} }` })
test.each([
  [
    file('format: fixed'),
    '4:40 source.format: needs the places of its columns (add fixed: { columns: [{ name: codigo, start: 1, length: 8 }] })',
  ],
  [
    file('format: csv, dbf: {}, xlsx: {}'),
    '4:60 source.xlsx: is only for format xlsx',
    '4:50 source.dbf: is only for format dbf',
  ],
  [
    file('format: fixed, fixed: { columns: [{ name: a, start: 1, length: 2, decimals: 2 }] }'),
    '4:108 source.fixed.columns[0].decimals: is only for type decimal',
  ],
  [
    file('format: csv, csv: { columns: [a, b, a] }'),
    '4:61 source.csv.columns: names the column "a" twice',
  ],
  [
    file('format: csv, csv: { encoding: cp85 }'),
    '4:62 source.csv.encoding: must be one of utf8, latin1, utf16le, utf16be, cp437, cp850, cp852, cp858, cp860, cp865, cp866, cp1250, cp1251, cp1252, iso8859-15, macroman (did you mean cp850?)',
  ],
] as [{ source: string }, ...string[]][])(
  'a check reports what a file cannot be: %j',
  (parts, ...problems) => {
    expect(problemsOf(flowText(parts)).sort()).toEqual([...problems].sort())
  },
)
