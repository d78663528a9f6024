import { resolve } from 'node:path'
import type { Path } from './findings.ts'
import type { LoadedFlow } from './read-flow.ts'

/** What two flows would do to each other's files, at a place of the first one's file. */
export type SharedFile = { flow: LoadedFlow; path: Path; message: string; hint: string }

/** A name with parts that stand for any text, or for one digit. */
type Pattern = readonly ('any' | 'digit' | { char: string })[]
type Use = { flow: LoadedFlow; path: Path; pattern: Pattern; takes: boolean }

/** Files that two flows would write, or that one would put away before the other has read them. */
export function sharedFiles(flows: readonly LoadedFlow[]): SharedFile[] {
  return [
    ...meetings(flows.flatMap(writesOf), (one, other) => ({
      message: `is a file that the flow ${nameOf(other)} writes too: each would cut off the other's lines, so none of them is loaded`,
      hint: 'give each flow a file of its own',
      ...one,
    })),
    ...meetings(flows.flatMap(readsOf), (one, other) => ({
      message: `takes files that the flow ${nameOf(other)} reads too: one would put them away before the other has read them, so none of them is loaded`,
      hint: 'give each flow files of its own, or a copy of them',
      ...one,
    })),
  ]
}

function nameOf({ flow: { flow, file } }: Use): string {
  return `${flow.name} (${file})`
}

function meetings(uses: readonly Use[], tell: (one: Use, other: Use) => SharedFile): SharedFile[] {
  return uses.flatMap((one) => {
    const other = uses.find(
      (each) =>
        each.flow !== one.flow && (each.takes || one.takes) && meet(each.pattern, one.pattern),
    )
    return other ? [tell(one, other)] : []
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

/** Whether one name suits both. A star stands for no slash. */
function meet(one: Pattern, other: Pattern): boolean {
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
