import { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import { type Entry, fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl'
import { SourceError } from '../types.ts'
import type { OpenFile } from './file-store.ts'

/** The files inside a zip file. Each method throws SourceError for a damaged file. */
export type ZipParts = {
  has(name: string): boolean
  /** Yields the bytes of a part while unpacking it. */
  read(name: string): AsyncGenerator<Buffer>
  close(): void
}

const readAtOnce = 64 * 1024
const maxParts = 10_000
/** Unpacked size. A file of some kilobytes can expand to a thousand times its size. */
const maxPartBytes = 2 * 1024 * 1024 * 1024

/** Part names are case-insensitive (ECMA-376, part 2, 6.2.2.3). Some programs write them with backslashes. */
function partName(name: string): string {
  return name.replaceAll('\\', '/').toLowerCase()
}

/** Reads an open file at any position. */
class PartReader extends RandomAccessReader {
  readonly #file: OpenFile

  constructor(file: OpenFile) {
    super()
    this.#file = file
  }

  override _readStreamForRange(start: number, end: number): Readable {
    const file = this.#file
    async function* bytes() {
      for (let position = start; position < end; ) {
        const length = Math.min(readAtOnce, end - position)
        const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
        if (bytesRead === 0) throw new Error('unexpected end of file')
        position += bytesRead
        yield buffer.subarray(0, bytesRead)
      }
    }
    return Readable.from(bytes(), { objectMode: false })
  }
}

/** Throws SourceError for a file that is not a zip file. `what` names the expected kind in the message. */
export async function openZip(file: OpenFile, size: number, what: string): Promise<ZipParts> {
  const damaged = (error: unknown): never => {
    if (error instanceof SourceError) throw error
    throw new SourceError({ code: 'ZIP_DAMAGED', data: { format: what } })
  }
  const zip: ZipFile = await fromRandomAccessReaderPromise(new PartReader(file), size, {
    lazyEntries: true,
    autoClose: false,
  }).catch(damaged)
  const entries = new Map<string, Entry>()
  try {
    for await (const entry of zip.eachEntry()) {
      const name = partName(entry.fileName)
      if (!entries.has(name)) entries.set(name, entry)
      if (entries.size > maxParts) {
        throw new SourceError({ code: 'ZIP_TOO_MANY_PARTS', data: { most: maxParts } })
      }
    }
  } catch (error) {
    zip.close()
    return damaged(error)
  }
  return {
    has: (name) => entries.has(partName(name)),
    async *read(name) {
      const entry = entries.get(partName(name))
      if (!entry) throw new SourceError({ code: 'ZIP_NO_PART', data: { format: what, part: name } })
      if (entry.uncompressedSize > maxPartBytes) {
        const data = { most: maxPartBytes, part: name }
        throw new SourceError({ code: 'ZIP_TOO_LARGE', data })
      }
      let sum = 0
      try {
        for await (const piece of await zip.openReadStreamPromise(entry)) {
          sum = crc32(piece as Buffer, sum)
          yield piece as Buffer
        }
        if (sum !== entry.crc32) throw new Error('another checksum')
      } catch (error) {
        damaged(error)
      }
    },
    close: () => zip.close(),
  }
}
