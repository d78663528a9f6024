import { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import { type Entry, fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl'
import { SourceError } from '../types.ts'
import type { OpenFile } from './file-store.ts'

/** The files inside a zip file. Each call throws SourceError for what is damaged. */
export type ZipParts = {
  has(name: string): boolean
  /** The bytes of a part, unpacked as they are read. */
  read(name: string): AsyncGenerator<Buffer>
  close(): void
}

const readAtOnce = 64 * 1024
const maxParts = 10_000
/** Unpacked; a file of some kilobytes may say that it holds a thousand times as much. */
const maxPartBytes = 2 * 1024 * 1024 * 1024

/** Names of parts are compared without case (ECMA-376, part 2, 6.2.2.3); some programs write them with backslashes. */
function partName(name: string): string {
  return name.replaceAll('\\', '/').toLowerCase()
}

/** Reads what an open file holds at places of its own choice. */
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

/** Throws SourceError when it is no zip file; `what` it should be, for the message. */
export async function openZip(file: OpenFile, size: number, what: string): Promise<ZipParts> {
  const damaged = (error: unknown): never => {
    if (error instanceof SourceError) throw error
    throw new SourceError(`is no ${what} that can be read: it is cut or damaged`)
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
      if (entries.size > maxParts) throw new SourceError(`has more than ${maxParts} parts`)
    }
  } catch (error) {
    zip.close()
    return damaged(error)
  }
  return {
    has: (name) => entries.has(partName(name)),
    async *read(name) {
      const entry = entries.get(partName(name))
      if (!entry) throw new SourceError(`is no ${what}: it has no part ${name}`)
      if (entry.uncompressedSize > maxPartBytes) {
        throw new SourceError(`is larger than ${maxPartBytes} bytes when it is unpacked (${name})`)
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
