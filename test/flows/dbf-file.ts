type Column = { name: string; type: string; length: number; decimals?: number; flags?: number }

/** A DBF file. A record is its deletion mark and the bytes of its columns. Texts are latin1 unless given as bytes. */
export function dbfFile(
  columns: readonly Column[],
  records: readonly (readonly [mark: string, ...cells: (string | Buffer)[]])[],
  { version = 0x03, language = 0x02, count = records.length, end = '\x1a' } = {},
): Buffer {
  const recordBytes = 1 + columns.reduce((sum, { length }) => sum + length, 0)
  const header = Buffer.alloc(32)
  header[0] = version
  header.writeUInt32LE(count, 4)
  header.writeUInt16LE(32 + columns.length * 32 + 1, 8)
  header.writeUInt16LE(recordBytes, 10)
  header[29] = language
  const descriptions = columns.map(({ name, type, length, decimals = 0, flags = 0 }) => {
    const bytes = Buffer.alloc(32)
    bytes.write(name, 0, 'latin1')
    bytes.write(type, 11, 'latin1')
    bytes[16] = length % 256
    bytes[17] = type === 'C' ? Math.floor(length / 256) : decimals
    bytes[18] = flags
    return bytes
  })
  const rows = records.map(([mark, ...cells]) =>
    Buffer.concat([
      Buffer.from(mark, 'latin1'),
      ...cells.map((cell, index) => {
        const bytes = typeof cell === 'string' ? Buffer.from(cell, 'latin1') : cell
        const { length = 0, type } = columns[index] ?? {}
        const room = Buffer.alloc(length, ' ')
        bytes.copy(room, type === 'N' || type === 'F' ? length - bytes.length : 0)
        return room
      }),
    ]),
  )
  return Buffer.concat([
    header,
    ...descriptions,
    Buffer.from('\r'),
    ...rows,
    Buffer.from(end, 'latin1'),
  ])
}
