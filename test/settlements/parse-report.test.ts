import { describe, expect, test } from 'vitest'
import { parseReport, type ReportLine } from '../../src/payments/settlements/parse-report.ts'
import {
  centsOfReport,
  dayOfReport,
  offsetOfZone,
  taxesOfCell,
} from '../../src/payments/settlements/report-amounts.ts'

async function read(text: string, chunk = text.length, offset?: string): Promise<ReportLine[]> {
  const parts: string[] = []
  for (let at = 0; at < text.length; at += chunk) parts.push(text.slice(at, at + chunk))
  const lines: ReportLine[] = []
  for await (const line of parseReport(parts, offset)) lines.push(line)
  return lines
}

const settlement = [
  'EXTERNAL_REFERENCE,SOURCE_ID,ORDER_MP,TRANSACTION_TYPE,TRANSACTION_AMOUNT,TRANSACTION_DATE,FEE_AMOUNT,FINANCING_FEE_AMOUNT,TAXES_AMOUNT,TAXES_DISAGGREGATED,SETTLEMENT_NET_AMOUNT,MONEY_RELEASE_DATE,IS_RELEASED,INSTALLMENTS,COUPON_AMOUNT',
  '0001-00004711,111222333,ORD01A,SETTLEMENT,10000.00,2026-11-21T10:30:00.000-04:00,-439.00,-300.00,-160.00,"[{financial_entity:caba,amount:-107.73,detail:tax_withholding_sirtac-caba},{financial_entity:debitos_creditos,amount:-52.27,detail:tax_withholding_collector-debitos_creditos}]",9101.00,2026-12-01T10:30:00.000-04:00,false,3,0.00',
  '0001-00004711,111222333,ORD01A,REFUND,-2000.00,2026-11-22T09:00:00.000-04:00,87.80,0.00,0.00,,-1912.20,,true,,-1.50',
  '',
].join('\n')

test('a settlement report is read with all its fields', async () => {
  const [charge, refund, ...more] = await read(settlement)
  expect(more).toEqual([])
  expect(charge).toEqual({
    line: 2,
    report: 'settlement',
    sourceId: '111222333',
    type: 'SETTLEMENT',
    detail: '',
    at: new Date('2026-11-21T14:30:00.000Z'),
    mpOrderId: 'ORD01A',
    externalReference: '0001-00004711',
    grossCents: 1_000_000,
    feeCents: -43_900,
    financingCents: -30_000,
    taxesCents: -16_000,
    taxes: [
      { name: 'tax_withholding_sirtac-caba', entity: 'caba', cents: -10_773 },
      {
        name: 'tax_withholding_collector-debitos_creditos',
        entity: 'debitos_creditos',
        cents: -5_227,
      },
    ],
    netCents: 910_100,
    releaseOn: '2026-12-01',
    isReleased: false,
    installments: 3,
    others: {},
  })
  expect(refund).toMatchObject({
    type: 'REFUND',
    grossCents: -200_000,
    feeCents: 8_780,
    netCents: -191_220,
    isReleased: true,
    others: { COUPON_AMOUNT: '-1.50' },
  })
})

test('a release report gives its movements, without balances and sums', async () => {
  const text = [
    'DATE;SOURCE_ID;RECORD_TYPE;DESCRIPTION;NET_CREDIT_AMOUNT;NET_DEBIT_AMOUNT;GROSS_AMOUNT;MP_FEE_AMOUNT;BALANCE_AMOUNT;ORDER_MP',
    '2026-11-20T00:00:00.000-04:00;;initial_available_balance;;1.500,25;0,00;;;1.500,25;',
    '2026-11-21T10:30:00.000-04:00;111222333;release;payment;9.101,00;0,00;10.000,00;-439,00;10.601,25;ORD01A',
    '2026-11-21T23:59:59.000-04:00;987;release;payout;0,00;10.601,25;;;0,00;',
    ';;total;;10.601,25;10.601,25;;;;',
  ].join('\r\n')
  const lines = await read(text)
  expect(lines).toMatchObject([
    {
      report: 'release',
      type: 'release',
      detail: 'payment',
      netCents: 910_100,
      grossCents: 1_000_000,
      feeCents: -43_900,
      mpOrderId: 'ORD01A',
      releaseOn: '2026-11-21',
    },
    { detail: 'payout', netCents: -1_060_125, grossCents: null, mpOrderId: null },
  ])
})

describe('a report file', () => {
  const list =
    '[{financial_entity:caba,amount:-107.73,detail:a,b},{financial_entity:x,amount:-1,detail:c}]'
  const columns =
    'SOURCE_ID TRANSACTION_TYPE TRANSACTION_AMOUNT TAXES_DISAGGREGATED SETTLEMENT_NET_AMOUNT'.split(
      ' ',
    )
  const file = (cell: string, separator: string) =>
    [columns, ['1', 'SETTLEMENT', '10.00', cell, '8.50']]
      .map((cells) => cells.join(separator))
      .join('\n')
  const expectedLines = [
    {
      sourceId: '1',
      grossCents: 1_000,
      netCents: 850,
      taxes: [
        { name: 'a,b', entity: 'caba', cents: -10_773 },
        { name: 'c', entity: 'x', cents: -100 },
      ],
    },
  ]
  const quoted = JSON.stringify([
    { financial_entity: 'caba', amount: -107.73, detail: 'a,b' },
    { financial_entity: 'x', amount: -1, detail: 'c' },
  ])

  test.each([',', ';', '|', '\t'])(
    'may contain lists of taxes with the separator %j',
    async (separator) => {
      for (const cell of [list, `"${list}"`, quoted, `"${quoted.replaceAll('"', '""')}"`]) {
        expect(await read(file(cell, separator)), cell).toMatchObject(expectedLines)
      }
    },
  )

  // As the provider writes them: quoted cells of JSON whose own quotes are not doubled.
  const undoubled =
    '"[{"financial_entity":"caba","amount":"-107.73","detail":"a,b"}, {"financial_entity":"x","amount":"-1","detail":"c"}]"'

  test.each([',', ';', '|', '\t'])(
    'may contain quotes that are not doubled, with the separator %j',
    async (separator) => {
      const more = [
        '"[{}]"',
        '"[{}, {"a":"}]","b":["x","y,;"],"c":"say \\"no\\""}]"',
        '"{"a":{"b":1}}"',
        '"[{""a"":""}]"",""}]"',
      ]
      for (const metadata of more) {
        const [header = '', row = ''] = file(undoubled, separator).split('\n')
        const text = [
          `METADATA${separator}${header}${separator}NOTE`,
          `${metadata}${separator}${row}${separator}${metadata}`,
          `${separator}${row}${separator}`,
          '',
        ].join('\r\n')
        for (const chunk of [text.length, 1, 13]) {
          expect(await read(text, chunk), metadata).toMatchObject([
            expectedLines[0],
            expectedLines[0],
          ])
        }
      }
    },
  )

  test('may contain a list without taxes', async () => {
    for (const cell of ['"[{}]"', '[{}]', '[]', '{}']) {
      expect(await read(file(cell, ',')), cell).toMatchObject([{ netCents: 850, taxes: [] }])
    }
  })

  test.each([
    [undoubled.replace('"-107.73"', '"-107.73'), 'Line 2, column TAXES_DISAGGREGATED'],
    [undoubled.replace('a,b', 'a "b"'), 'Line 2, column TAXES_DISAGGREGATED'],
    [undoubled.replace('}]"', '}"'), 'Line 2, column TAXES_DISAGGREGATED'],
    ['"[{"amount":"x"}]"', 'Line 2 has a TAXES_DISAGGREGATED that cannot be read: expected'],
  ])('is refused when its quotes do not show where a cell ends: %#', async (cell, reason) => {
    for (const separator of [',', ';']) {
      await expect(read(file(cell, separator)), cell).rejects.toThrow(reason)
      await expect(read(file(cell, separator)), cell).rejects.toThrow('expected')
    }
  })

  test('may have a byte order mark and Windows line ends, and is read in chunks of any length', async () => {
    const text = `\ufeff${settlement.replaceAll('\n', '\r\n')}`
    const whole = await read(settlement)
    for (const chunk of [1, 7, 64, text.length]) expect(await read(text, chunk)).toEqual(whole)
  })

  test('may have times without an offset: they are of GMT-4, or of the given zone', async () => {
    const text = `${file('', ',').replace('SOURCE_ID', 'TRANSACTION_DATE,SOURCE_ID').replace('\n1', '\n2026-11-21 23:30:00,1')}`
    expect((await read(text))[0]?.at).toEqual(new Date('2026-11-22T03:30:00Z'))
    expect((await read(text, 9, '-03:00'))[0]?.at).toEqual(new Date('2026-11-22T02:30:00Z'))
  })

  test('may have a separator at the end of each line', async () => {
    const text = file('', ';').split('\n').join(';\n')
    expect(await read(`${text};`)).toMatchObject([{ sourceId: '1', netCents: 850, taxes: [] }])
  })
})

test('a release report with the Spanish headers of the provider is read', async () => {
  const text = [
    'Fecha de liquidación;ID de operación en Mercado Pago;Código de referencia;Tipo de registro;Descripción;Monto neto acreditado;Monto neto debitado;MONTO BRUTO DE LA OPERACIÓN;Comision de Mercado Pago;Comisión por ofrecer cuotas sin interés;Impuestos cobrados por retenciones IIBB;Saldo;Cuotas;Desglose de impuestos;ID de la solicitud;Columna nueva',
    '2026-11-21T10:30:00.000-04:00;111222333;0001-1;release;payment;9.101,00;0,00;10.000,00;-439,00;-300,00;-160,00;10.601,25;3;"[{"financial_entity":"caba","amount":"-160.00"}]";ORD01A;x',
  ].join('\n')
  for (const form of ['NFC', 'NFD']) {
    expect(await read(text.normalize(form))).toMatchObject([
      {
        report: 'release',
        sourceId: '111222333',
        type: 'release',
        detail: 'payment',
        externalReference: '0001-1',
        grossCents: 1_000_000,
        feeCents: -43_900,
        financingCents: -30_000,
        taxesCents: -16_000,
        taxes: [{ entity: 'caba', cents: -16_000 }],
        netCents: 910_100,
        installments: 3,
        mpOrderId: 'ORD01A',
        releaseOn: '2026-11-21',
        others: {},
      },
    ])
  }
  const twice = text.replace('Columna nueva', 'SOURCE_ID')
  await expect(read(twice)).rejects.toThrow('SOURCE_ID twice')
  // A balance in Spanish would be counted as a movement.
  await expect(read(text.replace(';release;', ';Saldo inicial;'))).rejects.toThrow(
    'Line 2 has a RECORD_TYPE that cannot be read: expected one of release',
  )
  expect(await read(text.replace(';release;', ';subtotal;'))).toEqual([])
  // A header of no known source is refused.
  const unknown = text.replace('Monto neto debitado', 'Débito')
  await expect(read(unknown)).rejects.toThrow('NET_DEBIT_AMOUNT is missing')
})

test.each([
  ['', 'not even a header'],
  ['a,b\n1,2', 'SOURCE_ID, TRANSACTION_TYPE, TRANSACTION_AMOUNT, SETTLEMENT_NET_AMOUNT is missing'],
  ['SOURCE_ID,RECORD_TYPE\n', 'NET_CREDIT_AMOUNT, NET_DEBIT_AMOUNT is missing'],
  [
    settlement.replace('9101.00', 'many'),
    'Line 2 has a SETTLEMENT_NET_AMOUNT that cannot be read: expected an amount such as 1234.50 (got "many")',
  ],
  [settlement.replace('9101.00', '9101.005'), 'Line 2 has a SETTLEMENT_NET_AMOUNT'],
  [settlement.replace('2026-11-21T10', 'Saturday'), 'Line 2 has a date'],
  [settlement.replace('amount:-107.73', 'amount:?'), 'Line 2 has a TAXES_DISAGGREGATED'],
  [
    settlement.replace(',3,0.00', ',3'),
    'Line 2 has 14 values, and the header 15: expected a value for COUPON_AMOUNT',
  ],
  [
    settlement.replace(',3,0.00', ',3,0.00,1'),
    'Line 2 has 16 values, and the header 15: expected none after COUPON_AMOUNT',
  ],
  [settlement.replace('COUPON_AMOUNT', 'SOURCE_ID'), 'SOURCE_ID twice'],
])('a file that cannot be parsed is refused with its line: %#', async (text, reason) => {
  await expect(read(text)).rejects.toThrow(reason)
})

test('amounts are read to the cent, and refused when they are ambiguous', () => {
  const cents = (text: string) => centsOfReport(text)
  expect(
    ['-107.73', '10', '10.5', '1,234.50', '1.234,50', '+3,2', '0.000', '', '-0'].map(cents),
  ).toEqual([-10_773, 1_000, 1_050, 123_450, 123_450, 320, 0, 0, 0])
  for (const text of ['1,234', '1.234', '12,3456', 'x', '1e3', '--1', '1.2.3,4', '∞']) {
    expect(cents(text), text).toBeUndefined()
  }
})

test('zones are read in the notations of the provider', () => {
  expect(['GMT-03', 'GMT-4', 'UTC+5:30', '-03:00', 'GMT'].map(offsetOfZone)).toEqual([
    '-03:00',
    '-04:00',
    '+05:30',
    '-03:00',
    '+00:00',
  ])
  expect(offsetOfZone('America/Argentina/Buenos_Aires')).toBeUndefined()
})

test('an invalid list of taxes is refused', () => {
  for (const text of ['x', '[{detail:a}]', '[{amount:a}]', '{{', '[1]']) {
    expect(taxesOfCell(text), text).toBeUndefined()
  }
})

test.each([
  ['2026-12-01', '-04:00', '2026-12-01'],
  ['2026-12-01T02:30:00.000-04:00', '-04:00', '2026-12-01'],
  // The same time in another zone.
  ['2026-12-01T11:30:00.000+05:00', '-04:00', '2026-12-01'],
  ['2026-12-02T00:30:00.000+05:00', '+05:00', '2026-12-01'],
  ['2026-12-01 00:30:00', '-03:00', '2026-11-30'],
  ['soon', '-04:00', null],
])('the day of %s, without a zone %s, is %s, in every notation of reports', (text, offset, day) => {
  expect(dayOfReport(text, offset)).toBe(day)
})
