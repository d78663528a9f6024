import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { z } from 'zod'
import { codeOf } from '../db/database-failures.ts'
import { syncFolder } from '../files/durable-files.ts'
import {
  type BackupParts,
  CopyError,
  type Header,
  headerForm,
  type Part,
  rowsForm,
  type Totals,
  totalsForm,
} from './backup-parts.ts'

const formatName = 'tillbridge backup'
const format = 1

const headerLine = headerForm.extend({
  format: z.literal(formatName),
  formatVersion: z.number(),
})
const checksumLine = z.object({ sha256: z.string() })

/** The first and the last part of a file. */
export type Content = { header: Header; totals: Totals }

/**
 * Writes a copy as one file: JSON lines in gzip, with a checksum of all of them at the end. The file gets its name only
 * after it is complete, on the disk and read again; only its owner can read it.
 *
 * @throws CopyError when a file of the name exists.
 */
export async function writeBackup(path: string, source: BackupParts): Promise<Content> {
  if (existsSync(path)) throw new CopyError(`${path} is there already. Name a new file`)
  const unfinished = `${path}.unfinished-${process.pid}`
  try {
    await pipeline(
      Readable.from(toLines(source)),
      createGzip({ level: 4 }),
      createWriteStream(unfinished, { flags: 'wx', mode: 0o600, flush: true }),
    )
    const content = await checkBackup(unfinished)
    await rename(unfinished, path)
    await syncFolder(dirname(path))
    return content
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
}

/**
 * Reads a file to its end without using it.
 *
 * @throws CopyError when it is incomplete.
 */
export async function checkBackup(path: string): Promise<Content> {
  let header: Header | undefined
  let totals: Totals | undefined
  for await (const part of readBackup(path)) {
    if ('header' in part) header = part.header
    if ('totals' in part) totals = part.totals
  }
  return { header: header as Header, totals: totals as Totals }
}

/**
 * The parts of a file; the last one comes only when the checksum is right.
 *
 * @throws CopyError otherwise.
 */
export async function* readBackup(path: string): AsyncGenerator<Part> {
  const damaged = (cause?: unknown) =>
    new CopyError(`${path} is damaged or cut off: it is of no use as a backup`, { cause })
  const hash = createHash('sha256')
  let totals: Totals | undefined
  let isWhole = false
  let isFirst = true
  try {
    for await (const line of linesOf(path)) {
      const value: unknown = JSON.parse(line.toString())
      const checksum = totals && checksumLine.parse(value)
      if (checksum) {
        if (isWhole || checksum.sha256 !== hash.digest('hex')) throw damaged()
        isWhole = true
        continue
      }
      hash.update(line).update('\n')
      if (isFirst) yield { header: readHeader(path, value) }
      else if (typeof value === 'object' && value !== null && 'rows' in value) {
        yield rowsForm.parse(value)
      } else totals = totalsForm.parse(value)
      isFirst = false
    }
  } catch (error) {
    const isOurs = error instanceof SyntaxError || error instanceof z.ZodError
    if (isOurs || codeOf(error)?.startsWith('Z_')) throw damaged(error)
    throw error
  }
  if (!totals || !isWhole) throw damaged()
  yield { totals }
}

function readHeader(path: string, value: unknown): Header {
  const parsed = headerLine.safeParse(value)
  if (!parsed.success) throw new CopyError(`${path} is no backup of tillbridge`)
  const { format: _, formatVersion, ...header } = parsed.data
  if (formatVersion !== format) {
    throw new CopyError(
      `${path} was made by version ${header.version} in a form that this one cannot read. Install that version first`,
    )
  }
  return header
}

async function* toLines(source: BackupParts): AsyncGenerator<string> {
  const hash = createHash('sha256')
  for await (const part of source) {
    const line = `${JSON.stringify(toLine(part))}\n`
    hash.update(line)
    yield line
  }
  yield `${JSON.stringify({ sha256: hash.digest('hex') })}\n`
}

function toLine(part: Part): object {
  if ('header' in part) return { format: formatName, formatVersion: format, ...part.header }
  return 'totals' in part ? part.totals : part
}

/** Not by node:readline: it ends a line also at U+2028, which JSON does not escape. */
async function* linesOf(path: string): AsyncGenerator<Buffer> {
  const text = createGunzip()
  // A failure of either is thrown to the reader of `text`.
  const fed = pipeline(createReadStream(path), text)
  fed.catch(() => undefined)
  let rest: Buffer[] = []
  for await (const chunk of text as AsyncIterable<Buffer>) {
    let from = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      yield Buffer.concat([...rest, chunk.subarray(from, end)])
      rest = []
      from = end + 1
    }
    if (from < chunk.length) rest.push(chunk.subarray(from))
  }
  if (rest.length > 0) yield Buffer.concat(rest)
}
