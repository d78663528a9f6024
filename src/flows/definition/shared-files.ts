import { resolve } from 'node:path'
import type { Reason } from '../../domain/flow-reasons.ts'
import type { Path } from './findings.ts'
import type { LoadedFlow } from './read-flow.ts'

/** A conflict of two flows over their files, at a position in the first flow's file. */
export type SharedFile = { flow: LoadedFlow; path: Path; why: Reason }

/** A file name in which parts match any text or one digit. */
type Pattern = readonly ('any' | 'digit' | { char: string })[]
type Use = { flow: LoadedFlow; path: Path; pattern: Pattern; takes: boolean }

/** Files that two flows write, or that one archives or deletes before the other has read them. */
export function sharedFiles(flows: readonly LoadedFlow[]): SharedFile[] {
  return [
    ...conflicts(flows.flatMap(writesOf), (one, other) => ({
      why: { code: 'FILE_WRITTEN_TWICE', data: { flow: nameOf(other) } },
      ...one,
    })),
    ...conflicts(flows.flatMap(readsOf), (one, other) => ({
      why: { code: 'FILES_TAKEN_TWICE', data: { flow: nameOf(other) } },
      ...one,
    })),
  ]
}

function nameOf({ flow: { flow, file } }: Use): string {
  return `${flow.name} (${file})`
}

function conflicts(
  uses: readonly Use[],
  toSharedFile: (one: Use, other: Use) => SharedFile,
): SharedFile[] {
  return uses.flatMap((one) => {
    const other = uses.find(
      (each) =>
        each.flow !== one.flow &&
        (each.takes || one.takes) &&
        patternsOverlap(each.pattern, one.pattern),
    )
    return other ? [toSharedFile(one, other)] : []
  })
}

function writesOf(flow: LoadedFlow): Use[] {
  return flow.flow.destinations.flatMap((destination, index) => {
    if (destination.type !== 'file') return []
    const pattern = patternOf(resolve(destination.path))
    return [{ flow, path: ['destinations', index, 'path'], pattern, takes: true }]
  })
}

function readsOf(flow: LoadedFlow): Use[] {
  const { source } = flow.flow
  if (source.type !== 'file' && source.type !== 'sftp') return []
  const place =
    source.type === 'file'
      ? resolve(source.path)
      : `${URL.parse(source.url.reveal())?.host ?? source.url.template} ${source.path}`
  const takes = source.after !== 'keep'
  return [{ flow, path: ['source', 'path'], pattern: patternOf(place), takes }]
}

const digits = (count: number): Pattern => Array.from({ length: count }, () => 'digit' as const)
const dash = { char: '-' }
const day: Pattern = [...digits(4), dash, ...digits(2), dash, ...digits(2)]

function patternOf(place: string): Pattern {
  return place.split(/(\*|\{date\})/).flatMap((part): Pattern => {
    if (part === '*') return ['any']
    return part === '{date}' ? day : [...part].map((char) => ({ char }))
  })
}

/** Whether a name can match both patterns. A star does not match a slash. */
function patternsOverlap(one: Pattern, other: Pattern): boolean {
  const known = new Map<number, boolean>()
  const from = (at: number, beside: number): boolean => {
    const key = at * (other.length + 1) + beside
    const found = known.get(key)
    if (found !== undefined) return found
    known.set(key, false)
    const result = compare(at, beside)
    known.set(key, result)
    return result
  }
  const compare = (at: number, beside: number): boolean => {
    const [left, right] = [one[at], other[beside]]
    if (left === undefined && right === undefined) return true
    if (left === 'any' && (from(at + 1, beside) || (mayTake(right) && from(at, beside + 1)))) {
      return true
    }
    if (right === 'any' && (from(at, beside + 1) || (mayTake(left) && from(at + 1, beside)))) {
      return true
    }
    if (left === undefined || right === undefined || left === 'any' || right === 'any') return false
    return isSame(left, right) && from(at + 1, beside + 1)
  }
  return from(0, 0)
}

function mayTake(part: Pattern[number] | undefined): boolean {
  return part !== undefined && (typeof part === 'string' || part.char !== '/')
}

function isSame(left: Exclude<Pattern[number], 'any'>, right: Exclude<Pattern[number], 'any'>) {
  if (left === 'digit') return right === 'digit' || /\d/.test(right.char)
  return right === 'digit' ? /\d/.test(left.char) : left.char === right.char
}
