import { basename } from 'node:path'
import type { Flow } from '../definition/schema.ts'
import { createKeySet, type KeySet } from '../poll/key-set.ts'
import {
  type Source,
  SourceClosedError,
  SourceError,
  type SourceRow,
  type SourceWarning,
} from '../types.ts'
import type { SourceContext } from './context.ts'
import { atMost, inBatches, matching } from './counted.ts'
import { describe, sourceFailure } from './failures.ts'
import { archiveFile, deleteFile } from './file-after.ts'
import { type FoundFile, filePattern, findFiles, isSameFile } from './file-list.ts'
import { endsItsLastLine, hasMarker, isMarkerName, markerName, removeMarker } from './file-ready.ts'
import { recordsOfFile } from './file-records.ts'
import { hasKey, rowKey } from './row-key.ts'

type FileDefinition = Extract<Flow['source'], { type: 'file' }>

type Warn = (warning: SourceWarning) => void

/** `done` gets the files that were read whole; `lookOnly` passes over those that a poll would put away unread. */
type ScanMarks = { done?: FoundFile[]; lookOnly?: boolean; warn?: Warn | undefined }

/**
 * A file, or the files of a pattern, read whole and in the order of their last change.
 *
 * A file that changed less than `settle` ago is left for the next poll. Where the flow sends deletes, and for a file
 * named without `*`, that poll fails: what is not read must not look as if it were gone. In the same way no file at all
 * is a failure, except for a pattern whose files are archived or deleted once they are read, in a flow that sends no
 * deletes: there it means that nothing is new. A file that changes while it is read fails the poll, before its last
 * record is given away.
 *
 * With `ready` a file counts as unsettled until its marker is there. Without it, the last record of a file of lines (CSV, fixed
 * width) whose last line has no end may be cut in its last value: it is left, and with it the file, until the file was still for
 * `unendedAfter`; then it is taken with a warning.
 *
 * Where files are archived or deleted and no deletes are sent, each file tells what is new. One that tells of an item
 * again is left for the next poll, with all after it: an item counts once in a poll, and its later state would be lost.
 */
export function openFileSource(
  definition: FileDefinition,
  { flow, now, log }: Pick<SourceContext, 'flow' | 'now' | 'log'>,
): Source {
  const { limits, after, settleMs, ready, unendedAfterMs, format } = definition
  const pattern = filePattern(definition.path)
  const keyFields = flow.item.key
  const form = { ...definition, keyFields }
  const mayMissFiles = pattern.isGlob && flow.deletes.mode === 'ignore'
  const filesAreNews = mayMissFiles && after !== 'keep'
  const closing = new AbortController()
  let readByLastScan: FoundFile[] = []
  const leftovers: FoundFile[] = []

  // The time of the last change of anything about the file, which no program can set back.
  const wasStillFor = ({ stats }: FoundFile, ms: number): boolean =>
    ms === 0 || Number(stats.ctimeMs) <= now().getTime() - ms

  /** Why the file is left for a later poll; undefined when it is not. */
  const notYet = async (file: FoundFile): Promise<string | undefined> => {
    if (!wasStillFor(file, settleMs)) {
      return `${file.path} changed less than ${settleMs} ms ago (source.settle); it is read by a later poll`
    }
    if (ready === undefined || (await hasMarker(ready, file))) return undefined
    return `${file.path} waits for its marker ${markerName(ready, file.path)} (source.ready), which is missing or older than it`
  }

  const settledFiles = async (warn: Warn | undefined): Promise<FoundFile[]> => {
    const isMarker = ready === undefined ? () => false : isMarkerName(ready)
    const all = (await findFiles(pattern)).filter(({ path }) => !isMarker(basename(path)))
    if (all.length === 0 && !filesAreNews) {
      throw new SourceError(`there is no file ${definition.path} to read`)
    }
    for (const [index, file] of all.entries()) {
      const reason = await notYet(file)
      if (reason === undefined) continue
      if (!mayMissFiles) throw new SourceError(reason)
      // That long is no writing any more: somebody forgot the marker, and all files behind it wait.
      if (wasStillFor(file, settleMs + unendedAfterMs)) {
        warn?.({ message: `file source: ${reason}`, isIncomplete: false })
      }
      // Those behind it wait too: an older state must not come after a newer one.
      return all.slice(0, index)
    }
    return all
  }

  /** Whether the last record has to wait, since nothing says that it is whole. Other formats show where a record ends. */
  const leavesLastOf = async (file: FoundFile, warn: Warn | undefined): Promise<boolean> => {
    if (format !== 'csv' && format !== 'fixed') return false
    // A footer says of itself that the file is whole.
    if (ready !== undefined || definition[format]?.footer) return false
    if (await endsItsLastLine(file)) return false
    const isIncomplete = !wasStillFor(file, unendedAfterMs)
    const what = isIncomplete
      ? `its last record waits until the line has its end, or nothing has changed for ${unendedAfterMs} ms (source.unendedAfter)`
      : `nothing changed for ${unendedAfterMs} ms (source.unendedAfter), so its last record was taken as it stands and may be cut; a line end or source.ready makes sure`
    warn?.({
      message: `file source: ${file.path} ends within a line; ${what}`,
      isIncomplete,
    })
    return isIncomplete
  }

  /** Rejects with the errors of the operating system. */
  const putAway = async (file: FoundFile): Promise<void> => {
    const isDone = after === 'archive' ? await archiveFile(file, now()) : await deleteFile(file)
    if (!isDone) log.warn({ file: file.path }, 'a file changed after it was read; it stays')
    else if (ready !== undefined) await removeMarker(ready, file.path)
  }

  /** What could not be put away is tried again; while it stays, files that tell of the same items would wait unseen. */
  const putAwayLeftovers = async (): Promise<void> => {
    for (let file = leftovers[0]; file; file = leftovers[0]) {
      try {
        await putAway(file)
      } catch (error) {
        const why = describe(error, [])
        throw new SourceError(`${file.path} was read, but it cannot be ${after}d: ${why}`)
      }
      leftovers.shift()
    }
  }

  /** Whether the file has a record of an item that an earlier one told of. */
  const repeats = async (file: FoundFile, told: KeySet, signal: AbortSignal): Promise<boolean> => {
    if (told.size === 0) return false
    for await (const record of recordsOfFile(file, form, { leavesLast: false })) {
      signal.throwIfAborted()
      const key = rowKey(record, keyFields)
      if (key !== null && told.has(key)) return true
    }
    return false
  }

  const isLeftover = ({ path, stats }: FoundFile): boolean =>
    leftovers.some((file) => file.path === path && isSameFile(file.stats, stats))

  async function* read(
    signal: AbortSignal,
    { done, lookOnly = false, warn }: ScanMarks,
  ): AsyncGenerator<SourceRow[]> {
    async function* records(): AsyncGenerator<SourceRow> {
      if (done) await putAwayLeftovers()
      const told = filesAreNews ? createKeySet() : undefined
      for (const file of await settledFiles(warn)) {
        // A poll would put it away unread.
        if (lookOnly && isLeftover(file)) continue
        if (told && (await repeats(file, told, signal))) return
        const leavesLast = await leavesLastOf(file, warn)
        for await (const record of recordsOfFile(file, form, { leavesLast })) {
          const key = told && rowKey(record, keyFields)
          if (key) told?.add(key)
          yield record
        }
        // What comes after it may be older than what it still has to say.
        if (leavesLast && mayMissFiles) return
        if (!leavesLast) done?.push(file)
      }
    }
    try {
      for await (const batch of inBatches(records(), limits.fetchSize, (row) => row)) {
        signal.throwIfAborted()
        yield batch
      }
    } catch (error) {
      if (error instanceof SourceError && !signal.aborted) {
        throw new SourceError(`file source: ${error.message}`)
      }
      throw sourceFailure(error, signal, (what) => `file source: ${describe(what, [])}`)
    }
  }

  const scan = (callerSignal: AbortSignal, marks: ScanMarks = {}) =>
    atMost(read(AbortSignal.any([callerSignal, closing.signal]), marks), limits.maxRows)

  return {
    scan({ signal, lookOnly, warn }) {
      if (lookOnly) return scan(signal, { lookOnly, warn })
      readByLastScan = []
      return scan(signal, { done: readByLastScan, warn })
    },
    async readItem({ key, signal }) {
      let left: string | undefined
      const warn: Warn = ({ message, isIncomplete }) => {
        if (isIncomplete) left = message
      }
      const rows = await matching(scan(signal, { warn }), (row) => hasKey(row, keyFields, key))
      if (rows.length === 0 && left !== undefined) throw new SourceError(left)
      return rows
    },
    async committed() {
      const files = readByLastScan
      readByLastScan = []
      if (after === 'keep') return
      for (const file of files) {
        try {
          await putAway(file)
        } catch (error) {
          // The poll is committed all the same; reading it again would find nothing new in it.
          log.warn({ file: file.path, err: error }, `a file that was read cannot be ${after}d`)
          if (filesAreNews) leftovers.push(file)
        }
      }
    },
    async close() {
      closing.abort(new SourceClosedError())
    },
  }
}
