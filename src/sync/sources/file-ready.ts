import { parse } from 'node:path'
import { type FoundFile, type HeldFile, inOrder } from './file-store.ts'

const placeholder = /\{(?:name|stem)\}/g

/** The name of the marker of a file: `{name}` stands for the file's name, `{stem}` for it without its last extension. */
export function markerName(template: string, file: string): string {
  const { base, name } = parse(file)
  return template.replace(placeholder, (word) => (word === '{name}' ? base : name))
}

/** Makes the test for names that can only be those of markers: a pattern such as `*` would read them as data. */
export function isMarkerName(template: string): (name: string) => boolean {
  return inOrder(template.split(placeholder), 1)
}

/**
 * Whether a marker tells of the file. One that is older than the file tells of an earlier file of that name. By the
 * time of the last change of content: a file that is finished by renaming it keeps that.
 */
export function tellsOf(marker: FoundFile | undefined, file: FoundFile): boolean {
  return marker !== undefined && marker.changedNs >= file.changedNs
}

const lineFeed = 0x0a
const carriageReturn = 0x0d
const endOfFile = 0x1a
/** Where the first line of a file ends shows how its lines end. */
const firstLineBytes = 65_536

/**
 * Whether the last line of a file has its end: LF, or CR in a file without LF, or the sign for the end of a file (Ctrl-Z). In one
 * with CRLF a last CR is half an end. Rejects as `file.read` does.
 */
export async function endsItsLastLine(file: HeldFile, size: number): Promise<boolean> {
  if (size === 0) return true
  const length = Math.min(2, size)
  const end = await file.read(Buffer.alloc(length), 0, length, size - length)
  if (end.bytesRead < length) return false
  const [before, last] = length === 1 ? [undefined, end.buffer[0]] : end.buffer
  if (last === lineFeed || last === endOfFile) return true
  // UTF-16.
  if (before === lineFeed && last === 0) return true
  if (last !== carriageReturn) return false
  const first = await file.read(Buffer.alloc(firstLineBytes), 0, firstLineBytes, 0)
  return !first.buffer.subarray(0, first.bytesRead).includes(lineFeed)
}
