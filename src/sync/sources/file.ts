import { basename } from 'node:path'
import { unendedAfterMs } from '../definition/file-source-schema.ts'
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
import { endsItsLastLine, isMarkerName, markerName, tellsOf } from './file-ready.ts'
import { recordsOfFile } from './file-records.ts'
import { createStillness } from './file-stillness.ts'
import {
  type FileStore,
  type FileVisit,
  type FoundFile,
  type HeldFile,
  isSameFile,
} from './file-store.ts'
import { placed } from './json-items.ts'
import { hasKey, rowKey } from './row-key.ts'

type FileDefinition = Extract<Flow['source'], { type: 'file' | 'sftp' }>

type Warn = (warning: SourceWarning) => void

/**
 * `done` gets the files that were read whole, or that newer ones replace; `lookOnly` passes over those that a poll would put away
 * unread. `begins` is called with the name of each file, and how many records came before it.
 */
type ScanMarks = {
  done?: FoundFile[]
  lookOnly?: boolean
  warn?: Warn | undefined
  begins?: ((file: string, before: number) => void) | undefined
  /** Only these records, and of several files those of the first that has any. */
  wanted?: (row: SourceRow) => boolean
}

/**
 * A file, or the files of a pattern, of this machine or of a server. Of several files the newest counts, by their last change and
 * then by their names:
 *
 * - `files: newest` (where the flow sends deletes, unless told otherwise): each file is the whole list. The newest one is read, the
 *   others are put away unread.
 * - `files: all`: each file is a part. They are read newest first, so that of two records of one key that of the newer file is the item.
 * - Where files are archived or deleted and no deletes are sent, each file tells what is new, and the oldest is read first. One that
 *   tells of an item again is left for the next poll, with all after it: an item counts once in a poll, and its later state would
 *   be lost.
 *
 * A file that changed less than `settle` ago is left for the next poll. Where the flow sends deletes, and for a file
 * named without `*`, that poll fails: what is not read must not look as if it were gone. In the same way no file at all
 * is a failure, except for a pattern whose files are archived or deleted once they are read, in a flow that sends no
 * deletes: there it means that nothing is new. A file that changes while it is read fails the poll, before its last
 * record is given away.
 *
 * With `ready` a file counts as unsettled until its marker is there. Without it, the last record of a file of lines (CSV, fixed
 * width) whose last line has no end may be cut in its last value: it is left, and with it the file, until the file was still for
 * 15 minutes; then it is taken with a warning. An empty file is left as long: a writer begins with one.
 */
export function openFileSource(
  definition: FileDefinition,
  {
    flow,
    now,
    log,
    steadyMs = () => performance.now(),
  }: Pick<SourceContext, 'flow' | 'now' | 'log' | 'steadyMs'>,
  store: FileStore,
): Source {
  const { limits, after, settleMs, ready, format } = definition
  const { pattern, secrets } = store
  const keyFields = flow.item.key
  const form = { ...definition, keyFields }
  const mayMissFiles = pattern.isGlob && flow.deletes.mode === 'ignore'
  const isNewestOnly =
    pattern.isGlob &&
    (definition.files ?? (flow.deletes.mode === 'delete' ? 'newest' : 'all')) === 'newest'
  const filesAreNews = mayMissFiles && after !== 'keep' && !isNewestOnly
  const closing = new AbortController()
  let readByLastScan: FoundFile[] = []
  const leftovers: FoundFile[] = []

  const inStore = (row: SourceRow) => placed(row, `${store.name}:`)
  const { wasStillFor } = createStillness(now, steadyMs)
  const markerOf = ({ path }: FoundFile, template: string): string =>
    store.beside(path, markerName(template, path))

  /** Why the file is left for a later poll; undefined when it is not. */
  const notYet = async (visit: FileVisit, file: FoundFile): Promise<string | undefined> => {
    if (!wasStillFor(file, settleMs)) {
      return `${file.path} changed less than ${settleMs} ms ago (source.settle); it is read by a later poll`
    }
    if (ready === undefined) return undefined
    if (tellsOf(await visit.look(markerOf(file, ready)), file)) return undefined
    return `${file.path} waits for its marker ${markerName(ready, file.path)} (source.ready), which is missing or older than it`
  }

  const settledFiles = async (visit: FileVisit, warn: Warn | undefined): Promise<FoundFile[]> => {
    const isMarker = ready === undefined ? () => false : isMarkerName(ready)
    const all = (await visit.find()).filter(({ path }) => !isMarker(basename(path)))
    if (all.length === 0 && !(mayMissFiles && after !== 'keep')) {
      throw new SourceError({ code: 'NO_FILE', data: { path: definition.path } })
    }
    for (const [index, file] of all.entries()) {
      if (isNewestOnly && index < all.length - 1) continue
      const reason = await notYet(visit, file)
      if (reason === undefined) continue
      if (!mayMissFiles) throw new SourceError(reason)
      // That long is no writing any more: somebody forgot the marker, and all files behind it wait.
      if (wasStillFor(file, settleMs + unendedAfterMs)) {
        warn?.({ message: `${store.name}: ${reason}`, isIncomplete: false })
      }
      // Those behind it wait too: an older state must not come after a newer one.
      return all.slice(0, index)
    }
    return all
  }

  /** Whether a file without anything may be one that a writer has only opened. */
  const isBegun = (file: FoundFile, warn: Warn | undefined): boolean => {
    if (wasStillFor(file, unendedAfterMs)) return false
    warn?.({
      message: `${store.name}: ${file.path} is empty; it waits until something is written, or nothing has changed for ${unendedAfterMs} ms`,
      isIncomplete: true,
    })
    return true
  }

  /** Whether the last record has to wait, since nothing says that it is whole. Other formats show where a record ends. */
  const leavesLastOf = async (
    held: HeldFile,
    file: FoundFile,
    warn: Warn | undefined,
  ): Promise<boolean> => {
    if (format !== 'csv' && format !== 'fixed' && format !== 'ndjson') return false
    if (ready !== undefined) return false
    if (file.size === 0) return isBegun(file, warn)
    if (format === 'ndjson') return false
    if (await endsItsLastLine(held, file.size)) return false
    const isIncomplete = !wasStillFor(file, unendedAfterMs)
    const what = isIncomplete
      ? `its last record waits until the line has its end, or nothing has changed for ${unendedAfterMs} ms`
      : `nothing changed for ${unendedAfterMs} ms, so its last record was taken as it stands and may be cut; a line end or source.ready makes sure`
    warn?.({
      message: `${store.name}: ${file.path} ends within a line; ${what}`,
      isIncomplete,
    })
    return isIncomplete
  }

  /** Rejects as the visit does. One that is not the file that was read any more stays for the next poll. */
  const putAway = async (visit: FileVisit, file: FoundFile): Promise<void> => {
    const there = await visit.look(file.path)
    if (!there || !isSameFile(there, file)) {
      log.warn({ file: file.path }, 'a file changed after it was read; it stays')
      return
    }
    if (after === 'archive') await visit.archive(file, now())
    else await visit.remove(file.path)
    if (ready !== undefined) await visit.remove(markerOf(file, ready))
  }

  /** What could not be put away is tried again; while it stays, files that tell of the same items would wait unseen. */
  const putAwayLeftovers = async (visit: FileVisit): Promise<void> => {
    for (let file = leftovers[0]; file; file = leftovers[0]) {
      try {
        await putAway(visit, file)
      } catch (error) {
        const why = describe(error, secrets)
        throw new SourceError(`${file.path} was read, but it cannot be ${after}d: ${why}`)
      }
      leftovers.shift()
    }
  }

  /** Whether the file has a record of an item that an earlier one told of. */
  const repeats = async (
    held: HeldFile,
    file: FoundFile,
    told: KeySet,
    signal: AbortSignal,
  ): Promise<boolean> => {
    if (told.size === 0) return false
    for await (const record of recordsOfFile(held, file, form, { leavesLast: false })) {
      signal.throwIfAborted()
      const key = rowKey(record, keyFields)
      if (key !== null && told.has(key)) return true
    }
    return false
  }

  const isLeftover = (found: FoundFile): boolean =>
    leftovers.some((file) => file.path === found.path && isSameFile(file, found))

  async function* read(
    signal: AbortSignal,
    { done, lookOnly = false, warn, begins, wanted }: ScanMarks,
  ): AsyncGenerator<SourceRow[]> {
    const visit = store.visit(signal)
    async function* records(): AsyncGenerator<SourceRow> {
      if (done) await putAwayLeftovers(visit)
      const told = filesAreNews ? createKeySet() : undefined
      let before = 0
      const settled = await settledFiles(visit, warn)
      const files = isNewestOnly ? settled.slice(-1) : settled
      for (const file of filesAreNews ? files : files.toReversed()) {
        // A poll would put it away unread.
        if (lookOnly && isLeftover(file)) continue
        const held = await visit.open(file)
        try {
          if (told && (await repeats(held, file, told, signal))) return
          const leavesLast = await leavesLastOf(held, file, warn)
          begins?.(file.path, before)
          let isFound = false
          for await (const record of recordsOfFile(held, file, form, { leavesLast })) {
            const key = told && rowKey(record, keyFields)
            if (key) told?.add(key)
            before += 1
            if (wanted?.(record) === false) continue
            isFound = wanted !== undefined
            yield record
          }
          if (isFound) return
          // What comes after it may be older than what it still has to say.
          if (leavesLast && mayMissFiles) return
          if (!leavesLast) done?.push(file)
        } finally {
          await held.close()
        }
      }
      if (isNewestOnly)
        done?.push(...settled.slice(0, -1).filter((file) => wasStillFor(file, settleMs)))
    }
    try {
      for await (const batch of inBatches(records(), limits.fetchSize, inStore)) {
        signal.throwIfAborted()
        yield batch
      }
    } catch (error) {
      if (error instanceof SourceError && !signal.aborted) {
        throw new SourceError(`${store.name}: ${error.message}`)
      }
      throw sourceFailure(error, signal, (what) => `${store.name}: ${describe(what, secrets)}`)
    } finally {
      await visit.leave()
    }
  }

  const scan = (callerSignal: AbortSignal, marks: ScanMarks) =>
    atMost(read(AbortSignal.any([callerSignal, closing.signal]), marks), limits.maxRows)

  return {
    repeatsKeys: filesAreNews,
    scan({ signal, lookOnly, warn, begins }) {
      if (lookOnly) return scan(signal, { lookOnly, warn, begins })
      readByLastScan = []
      return scan(signal, { done: readByLastScan, warn, begins })
    },
    async readItem({ key, signal }) {
      let left: string | undefined
      const warn: Warn = ({ message, isIncomplete }) => {
        if (isIncomplete) left = message
      }
      const wanted = (row: SourceRow) => hasKey(row, keyFields, key)
      // In the order of a poll: what files still have to say must not come after something newer.
      const rows = await matching(scan(signal, { warn, wanted }), wanted)
      if (rows.length === 0 && left !== undefined) throw new SourceError(left)
      return rows
    },
    async committed() {
      const files = readByLastScan
      readByLastScan = []
      if (after === 'keep') return
      const visit = store.visit(closing.signal)
      for (const file of files) {
        try {
          await putAway(visit, file)
        } catch (error) {
          // The poll is committed all the same; reading it again would find nothing new in it.
          const reason = describe(error, secrets)
          log.warn({ file: file.path, reason }, `a file that was read cannot be ${after}d`)
          if (filesAreNews) leftovers.push(file)
        }
      }
      await visit.leave()
    },
    async close() {
      closing.abort(new SourceClosedError())
    },
  }
}
