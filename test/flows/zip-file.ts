import { crc32, deflateRawSync } from 'node:zlib'

/** A zip file of the given parts, as programs write one: deflated, with the directory at the end. */
export function zipFile(parts: Readonly<Record<string, string>>): Buffer {
  const locals: Buffer[] = []
  const entries: Buffer[] = []
  let offset = 0
  for (const [name, text] of Object.entries(parts)) {
    const bytes = Buffer.from(text)
    const packed = deflateRawSync(bytes)
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(8, 4)
    common.writeUInt32LE(crc32(bytes), 10)
    common.writeUInt32LE(packed.length, 14)
    common.writeUInt32LE(bytes.length, 18)
    common.writeUInt16LE(Buffer.byteLength(name), 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), packed])
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE(offset, 10)
    entries.push(
      Buffer.concat([Buffer.from('PK\x01\x02\x14\0', 'latin1'), common, rest, Buffer.from(name)]),
    )
    locals.push(local)
    offset += local.length
  }
  const directory = Buffer.concat(entries)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 0, 'latin1')
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...locals, directory, end])
}

const main = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
const links = 'http://schemas.openxmlformats.org/package/2006/relationships'
const office = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'

/** The parts of a workbook with one sheet, as a program with prefixes writes them. */
export function workbook(
  rows: string,
  {
    shared = '',
    formats = '',
    more = '',
    partNames = (name) => name,
  }: {
    shared?: string
    formats?: string
    more?: string
    partNames?: (name: string) => string
  } = {},
): Buffer {
  const link = (id: string, type: string, target: string) =>
    `<Relationship Id="${id}" Type="${office}/${type}" Target="${target}"/>`
  const parts = {
    '_rels/.rels': `<Relationships xmlns="${links}">${link('r1', 'officeDocument', '/xl/workbook.xml')}</Relationships>`,
    'xl/workbook.xml': `<x:workbook xmlns:x="${main}" xmlns:r="${office}">${more}<x:sheets><x:sheet name="Lista" sheetId="7" r:id="r9"/></x:sheets></x:workbook>`,
    'xl/_rels/workbook.xml.rels': `<Relationships xmlns="${links}">${link('r9', 'worksheet', 'worksheets/s.xml')}${link('r2', 'sharedStrings', 'sharedStrings.xml')}${link('r3', 'styles', 'styles.xml')}</Relationships>`,
    'xl/sharedStrings.xml': `<sst xmlns="${main}">${shared}</sst>`,
    'xl/styles.xml': `<styleSheet xmlns="${main}">${formats}</styleSheet>`,
    'xl/worksheets/s.xml': `<worksheet xmlns="${main}"><sheetData>${rows}</sheetData></worksheet>`,
  }
  return zipFile(
    Object.fromEntries(Object.entries(parts).map(([name, text]) => [partNames(name), text])),
  )
}
