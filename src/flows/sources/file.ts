import { basename } from 'node:path'
import { type Reason, sentenceOf } from '../../texts/reason.ts'
import { unendedAfterMs } from '../definition/file-source-schema.ts'
import type { Flow } from '../definition/schema.ts'
import { createKeySet, type KeySet } from '../poll/key-set.ts'
import {
  FileNotReadyError,
  type Source,
  SourceClosedError,
  SourceError,
  type SourceRow,
  type SourceWarning,
} from '../types.ts'
import {
  createStabilityCheck,
  endsItsLastLine,
  isMarkerName,
  isMarkerOf,
  markerName,
} from './file-readiness.ts'
import { recordsOfFile } from './file-records.ts'
import {
  type FileAccess,
  type FileStore,
  type FoundFile,
  isSameFile,
  type OpenedFile,
} from './file-store.ts'
import { placed } from './json-items.ts'
import { inBatches, limitRows, matching } from './record-batches.ts'
import { createKeyReader, hasKey, rowKey } from './row-key.ts'
import type { SourceContext } from './source-context.ts'
import { describe } from './source-failures.ts'

type FileDefinition = Extract<Flow['source'], { type: 'file' | 'sftp' }>

type Warn = (warning: SourceWarning) => void

/**
 * `done` collects the files that were read completely or that a newer file replaces. `onFileStart` is called with each
 * file's name and the number of records before it.
 */
type ScanOptions = {
  done?: FoundFile[]
  warn?: Warn | undefined
  onFileStart?: ((file: string, before: number) => void) | undefined
  /** Yields only these records and stops after the first file that contains one. */
  wanted?: (row: SourceRow) => boolean
}

/**
 * A file, or the files of a pattern, on this machine or a server. Newer means a later change, then a later name.
 *
 * - `files: newest` (default when the flow sends deletes): each file is the complete list. Only the newest is read; the others
 *   are archived or deleted unread.
 * - `files: all`: each file is a part of the list. Newer files are read first, so that their record of a key is used.
 * - Files that are archived or deleted, in a flow that sends no deletes, contain changes. The oldest is read first. A file
 *   with an item that an earlier file had waits for the next poll, with all later files: a poll accepts an item once, and its
 *   later state would be lost.
 *
 * A file changed less than `settle` ago waits for the next poll. The poll fails instead if the flow sends deletes or the name
 * has no `*`: unread items must not look deleted. For the same reason a poll without any file fails. It does not fail for a
 * pattern whose files are archived or deleted, in a flow that sends no deletes: then nothing is new. A file that changes
 * during the read fails the poll before its last record is yielded.
 *
 * With `ready` a file waits for its marker. Without it, the last record of a CSV or fixed-width file may be truncated when its
 * last line has no end. That record and the file wait until the file is unchanged for 15 minutes. Then it is accepted with a
 * warning. An empty file waits as long, because a writer first creates an empty file.
 */
export function openFileSource(
  definition: FileDefinition,
  {
    flow,
    now,
    log,
    monotonicMs = () => performance.now(),
  }: Pick<SourceContext, 'flow' | 'now' | 'log' | 'monotonicMs'>,
  store: FileStore,
): Source {
  const { limits, after, settleMs, ready, format } = definition
  const { pattern, secrets } = store
  const keyFields = flow.item.key
  const readKey = createKeyReader(flow.item)
  const form = { ...definition, keyFields }
  const mayMissFiles = pattern.isGlob && flow.deletes.mode === 'ignore'
  const isNewestOnly =
    pattern.isGlob &&
    (definition.files ?? (flow.deletes.mode === 'delete' ? 'newest' : 'all')) === 'newest'
  const filesAreChanges = mayMissFiles && after !== 'keep' && !isNewestOnly
  const closing = new AbortController()
  let readByLastScan: FoundFile[] = []
  const pendingFiles: FoundFile[] = []

  const atStore = (what: Reason): Reason => ({
    code: 'AT_SOURCE',
    data: { source: store.name, what },
  })
  const inStore = placed(atStore)
  const wasUnchangedFor = createStabilityCheck(now, monotonicMs)
  const markerOf = ({ path }: FoundFile, template: string): string =>
    store.beside(path, markerName(template, path))

  /** Why the file waits for a later poll; undefined when it can be read. */
  const whyNotReady = async (
    access: FileAccess,
    file: FoundFile,
  ): Promise<FileNotReadyError | undefined> => {
    const { path, unchangedSinceMs } = file
    const maxWaitMs = settleMs + unendedAfterMs
    if (!wasUnchangedFor(file, settleMs)) {
      // After a clock adjustment the calculated time may be in the past or too far in the future.
      const nowMs = now().getTime()
      const endMs = Math.min(Math.max(unchangedSinceMs + settleMs, nowMs), nowMs + settleMs)
      const why: Reason = { code: 'FILE_SETTLING', data: { path, ms: settleMs } }
      return new FileNotReadyError(why, { until: new Date(endMs), maxWaitMs })
    }
    if (ready === undefined) return undefined
    if (isMarkerOf(await access.stat(markerOf(file, ready)), file)) return undefined
    const data = { path, marker: markerName(ready, path) }
    return new FileNotReadyError({ code: 'FILE_WITHOUT_MARKER', data }, { until: null, maxWaitMs })
  }

  const settledFiles = async (access: FileAccess, warn: Warn | undefined): Promise<FoundFile[]> => {
    const isMarker = ready === undefined ? () => false : isMarkerName(ready)
    const all = (await access.find()).filter(({ path }) => !isMarker(basename(path)))
    if (all.length === 0 && !(mayMissFiles && after !== 'keep')) {
      throw new SourceError({ code: 'NO_FILE', data: { path: definition.path } })
    }
    for (const [index, file] of all.entries()) {
      if (isNewestOnly && index < all.length - 1) continue
      const reason = await whyNotReady(access, file)
      if (reason === undefined) continue
      if (!mayMissFiles) throw reason
      // Writing does not take that long. The marker is probably missing for good, and all later files wait.
      if (wasUnchangedFor(file, settleMs + unendedAfterMs)) {
        warn?.({ why: atStore(reason.why), isIncomplete: false })
      }
      // Later files wait too: an older state must not follow a newer one.
      return all.slice(0, index)
    }
    return all
  }

  /** Whether an empty file may be one that a writer has just created. */
  const mayBeJustCreated = (file: FoundFile, warn: Warn | undefined): boolean => {
    if (wasUnchangedFor(file, unendedAfterMs)) return false
    const data = { path: file.path, ms: unendedAfterMs }
    warn?.({ why: atStore({ code: 'FILE_BEGUN', data }), isIncomplete: true })
    return true
  }

  /** Whether the last record waits because it may be truncated. Other formats show where a record ends. */
  const skipsLastOf = async (
    opened: OpenedFile,
    file: FoundFile,
    warn: Warn | undefined,
  ): Promise<boolean> => {
    if (format !== 'csv' && format !== 'fixed' && format !== 'ndjson') return false
    if (ready !== undefined) return false
    if (file.size === 0) return mayBeJustCreated(file, warn)
    if (format === 'ndjson') return false
    if (await endsItsLastLine(opened, file.size)) return false
    const isIncomplete = !wasUnchangedFor(file, unendedAfterMs)
    const code = isIncomplete ? 'FILE_ENDS_IN_LINE' : 'FILE_ENDS_IN_LINE_TAKEN'
    const data = { path: file.path, ms: unendedAfterMs }
    warn?.({ why: atStore({ code, data }), isIncomplete })
    return isIncomplete
  }

  /** Rejects as the file access does. A file that changed after the read stays for the next poll. */
  const archiveOrDelete = async (access: FileAccess, file: FoundFile): Promise<void> => {
    const there = await access.stat(file.path)
    if (!there || !isSameFile(there, file)) {
      log.warn({ file: file.path }, 'file changed after the read; it is kept')
      return
    }
    if (after === 'archive') await access.archive(file, now())
    else await access.remove(file.path)
    if (ready !== undefined) await access.remove(markerOf(file, ready))
  }

  /** Repeats a failed archive or delete. Until it succeeds, later files with the same items cannot be read. */
  const archiveOrDeletePending = async (access: FileAccess): Promise<void> => {
    for (let file = pendingFiles[0]; file; file = pendingFiles[0]) {
      try {
        await archiveOrDelete(access, file)
      } catch (error) {
        const code = after === 'archive' ? 'FILE_NOT_ARCHIVED' : 'FILE_NOT_DELETED'
        const data = { path: file.path, what: describe(error, secrets) }
        throw new SourceError({ code, data })
      }
      pendingFiles.shift()
    }
  }

  /** Whether the file has a record of an item that an earlier file had. */
  const hasSeenItem = async (
    opened: OpenedFile,
    file: FoundFile,
    seenKeys: KeySet,
    signal: AbortSignal,
  ): Promise<boolean> => {
    if (seenKeys.size === 0) return false
    for await (const record of recordsOfFile(opened, file, form, { skipsLast: false })) {
      signal.throwIfAborted()
      const key = rowKey(record, keyFields, readKey)
      if (key !== null && seenKeys.has(key)) return true
    }
    return false
  }

  async function* read(
    signal: AbortSignal,
    { done, warn, onFileStart, wanted }: ScanOptions,
  ): AsyncGenerator<SourceRow[]> {
    const access = store.access(signal)
    async function* records(): AsyncGenerator<SourceRow> {
      if (done) await archiveOrDeletePending(access)
      const seenKeys = filesAreChanges ? createKeySet() : undefined
      let before = 0
      const settled = await settledFiles(access, warn)
      const files = isNewestOnly ? settled.slice(-1) : settled
      for (const file of filesAreChanges ? files : files.toReversed()) {
        const opened = await access.open(file)
        try {
          if (seenKeys && (await hasSeenItem(opened, file, seenKeys, signal))) return
          const skipsLast = await skipsLastOf(opened, file, warn)
          onFileStart?.(file.path, before)
          let isFound = false
          for await (const record of recordsOfFile(opened, file, form, { skipsLast })) {
            const key = seenKeys && rowKey(record, keyFields, readKey)
            if (key) seenKeys?.add(key)
            before += 1
            if (wanted?.(record) === false) continue
            isFound = wanted !== undefined
            yield record
          }
          if (isFound) return
          // Later files may be older than the record that still waits.
          if (skipsLast && mayMissFiles) return
          if (!skipsLast) done?.push(file)
        } finally {
          await opened.close()
        }
      }
      if (isNewestOnly)
        done?.push(...settled.slice(0, -1).filter((file) => wasUnchangedFor(file, settleMs)))
    }
    try {
      for await (const batch of inBatches(records(), limits.fetchSize, inStore)) {
        signal.throwIfAborted()
        yield batch
      }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (error instanceof FileNotReadyError || isNoFile(error)) throw error
      throw new SourceError(atStore(describe(error, secrets)))
    } finally {
      await access.close()
    }
  }

  const scan = (callerSignal: AbortSignal, options: ScanOptions) =>
    limitRows(read(AbortSignal.any([callerSignal, closing.signal]), options), limits.maxRows)

  return {
    repeatsKeys: filesAreChanges,
    scan({ signal, warn, onFileStart }) {
      readByLastScan = []
      return scan(signal, { done: readByLastScan, warn, onFileStart })
    },
    async readItem({ key, signal }) {
      let omitted: Reason | undefined
      const warn: Warn = ({ why, isIncomplete }) => {
        if (isIncomplete) omitted = why
      }
      const wanted = (row: SourceRow) => hasKey(row, keyFields, key, readKey)
      // Same order as a poll: a record that still waits must not follow a newer state.
      const rows = await matching(scan(signal, { warn, wanted }), wanted)
      if (rows.length === 0 && omitted !== undefined) throw new SourceError(omitted)
      return rows
    },
    async committed() {
      const files = readByLastScan
      readByLastScan = []
      if (after === 'keep') return
      const access = store.access(closing.signal)
      for (const file of files) {
        try {
          await archiveOrDelete(access, file)
        } catch (error) {
          // The poll is committed anyway; reading the file again would find no change.
          const reason = sentenceOf(describe(error, secrets), 'en')
          log.warn({ file: file.path, reason }, `file not ${after}d after the read`)
          if (filesAreChanges) pendingFiles.push(file)
        }
      }
      await access.close()
    },
    async close() {
      closing.abort(new SourceClosedError())
    },
  }
}

function isNoFile(error: unknown): boolean {
  return error instanceof SourceError && error.why.code === 'NO_FILE'
}
