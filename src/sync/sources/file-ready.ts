import { constants } from 'node:fs'
import { lstat, open, unlink } from 'node:fs/promises'
import { dirname, join, parse } from 'node:path'
import { codeOf } from './failures.ts'
import type { FoundFile } from './file-list.ts'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
const placeholder = /\{(?:name|stem)\}/g

/** The name of the marker of a file: `{name}` stands for the file's name, `{stem}` for it without its last extension. */
export function markerName(template: string, file: string): string {
  const { base, name } = parse(file)
  return template.replace(placeholder, (word) => (word === '{name}' ? base : name))
}

/** Makes the test for names that can only be those of markers: a pattern such as `*` would read them as data. */
export function isMarkerName(template: string): (name: string) => boolean {
  const parts = template
    .split(placeholder)
    .map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  const expression = new RegExp(`^${parts.join('.+')}$`, 's')
  return (name) => expression.test(name)
}

/**
 * Whether the marker of a file is there. One that is older than the file tells of an earlier file of that name. By the
 * time of the last change of content: a file that is finished by renaming it keeps that.
 */
export async function hasMarker(template: string, { path, stats }: FoundFile): Promise<boolean> {
  try {
    const marker = await lstat(markerPath(template, path), { bigint: true })
    return marker.isFile() && marker.mtimeNs >= stats.mtimeNs
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}

/** Removes the marker of a file that was put away; it is fine when there is none. */
export async function removeMarker(template: string, path: string): Promise<void> {
  try {
    await unlink(markerPath(template, path))
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
}

function markerPath(template: string, path: string): string {
  return join(dirname(path), markerName(template, path))
}

const lineFeed = 0x0a
const carriageReturn = 0x0d
const endOfFile = 0x1a
/** Where the first line of a file ends shows how its lines end. */
const firstLineBytes = 65_536

/**
 * Whether the last line of a file has its end: LF, or CR in a file without LF, or the sign for the end of a file (Ctrl-Z). In one
 * with CRLF a last CR is half an end, and would be read as a part of the value. Rejects with the errors of the operating system.
 */
export async function endsItsLastLine({ path, stats }: FoundFile): Promise<boolean> {
  if (stats.size === 0n) return true
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const size = Number(stats.size)
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
  } finally {
    await file.close()
  }
}
