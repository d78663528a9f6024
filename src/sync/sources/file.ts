import type { Flow } from '../definition/schema.ts'
import { createKeySet, type KeySet } from '../poll/key-set.ts'
import { type Source, SourceClosedError, SourceError, type SourceRow } from '../types.ts'
import type { SourceContext } from './context.ts'
import { atMost, inBatches, matching } from './counted.ts'
import { describe, sourceFailure } from './failures.ts'
import { archiveFile, deleteFile } from './file-after.ts'
import { type FoundFile, filePattern, findFiles, isSameFile } from './file-list.ts'
import { recordsOfFile } from './file-records.ts'
import { hasKey, rowKey } from './row-key.ts'

type FileDefinition = Extract<Flow['source'], { type: 'file' }>

/** `done` gets the files that were read whole; `lookOnly` passes over those that a poll would put away unread. */
type ScanMarks = { done?: FoundFile[]; lookOnly?: boolean }

/**
 * A file, or the files of a pattern, read whole and in the order of their last change.
 *
 * A file that changed less than `settle` ago is left for the next poll. Where the flow sends deletes, and for a file
 * named without `*`, that poll fails: what is not read must not look as if it were gone. In the same way no file at all
 * is a failure, except for a pattern whose files are archived or deleted once they are read, in a flow that sends no
 * deletes: there it means that nothing is new. A file that changes while it is read fails the poll, before its last
 * record is given away.
 *
 * Where files are archived or deleted and no deletes are sent, each file tells what is new. One that tells of an item
 * again is left for the next poll, with all after it: an item counts once in a poll, and its later state would be lost.
 */
export function openFileSource(
  definition: FileDefinition,
  { flow, now, log }: Pick<SourceContext, 'flow' | 'now' | 'log'>,
): Source {
  const { limits, after, settleMs } = definition
  const pattern = filePattern(definition.path)
  const keyFields = flow.item.key
  const mayMissFiles = pattern.isGlob && flow.deletes.mode === 'ignore'
  const filesAreNews = mayMissFiles && after !== 'keep'
  const closing = new AbortController()
  let readByLastScan: FoundFile[] = []
  const leftovers: FoundFile[] = []

  const settledFiles = async (): Promise<FoundFile[]> => {
    const all = await findFiles(pattern)
    if (all.length === 0 && !filesAreNews) {
      throw new SourceError(`there is no file ${definition.path} to read`)
    }
    // The time of the last change of anything about the file, which no program can set back.
    const youngest = now().getTime() - settleMs
    const unsettled = all.find(({ stats }) => settleMs > 0 && Number(stats.ctimeMs) > youngest)
    if (!unsettled) return all
    if (!mayMissFiles) {
      throw new SourceError(
        `${unsettled.path} changed less than ${settleMs} ms ago (source.settle); it is read by a later poll`,
      )
    }
    // Those behind it wait too: an older state must not come after a newer one.
    return all.slice(0, all.indexOf(unsettled))
  }

  /** Rejects with the errors of the operating system. */
  const putAway = async (file: FoundFile): Promise<void> => {
    const isDone = after === 'archive' ? await archiveFile(file, now()) : await deleteFile(file)
    if (!isDone) log.warn({ file: file.path }, 'a file changed after it was read; it stays')
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
    for await (const record of recordsOfFile(file, definition)) {
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
    { done, lookOnly = false }: ScanMarks,
  ): AsyncGenerator<SourceRow[]> {
    async function* records(): AsyncGenerator<SourceRow> {
      if (done) await putAwayLeftovers()
      const told = filesAreNews ? createKeySet() : undefined
      for (const file of await settledFiles()) {
        // A poll would put it away unread.
        if (lookOnly && isLeftover(file)) continue
        if (told && (await repeats(file, told, signal))) return
        for await (const record of recordsOfFile(file, definition)) {
          const key = told && rowKey(record, keyFields)
          if (key) told?.add(key)
          yield record
        }
        done?.push(file)
      }
    }
    try {
      for await (const batch of inBatches(records(), limits.fetchSize)) {
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
    scan({ signal, lookOnly }) {
      if (lookOnly) return scan(signal, { lookOnly })
      readByLastScan = []
      return scan(signal, { done: readByLastScan })
    },
    readItem: ({ key, signal }) => matching(scan(signal), (row) => hasKey(row, keyFields, key)),
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
