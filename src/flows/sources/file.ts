import { basename } from 'node:path'
import { type Reason, sentenceOf } from '../../texts/reason.ts'
import { unendedAfterMs } from '../definition/file-source-schema.ts'
import type { Flow } from '../definition/schema.ts'
import { createKeySet, type KeySet } from '../item/key-set.ts'
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
import { withPlace } from './json-items.ts'
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
export class FileSource implements Source {
  readonly repeatsKeys: boolean
  readonly #definition: FileDefinition
  readonly #store: FileStore
  readonly #now: () => Date
  readonly #log: SourceContext['log']
  readonly #keyFields: Flow['item']['key']
  readonly #readKey: ReturnType<typeof createKeyReader>
  /** A poll without a file, or with a file that waits, is no failure. */
  readonly #mayMissFiles: boolean
  readonly #isNewestOnly: boolean
  readonly #wasUnchangedFor: ReturnType<typeof createStabilityCheck>
  readonly #closing = new AbortController()
  #readByLastScan: FoundFile[] = []
  readonly #pendingFiles: FoundFile[] = []

  constructor(
    definition: FileDefinition,
    {
      flow,
      now,
      log,
      monotonicMs = () => performance.now(),
    }: Pick<SourceContext, 'flow' | 'now' | 'log' | 'monotonicMs'>,
    store: FileStore,
  ) {
    this.#definition = definition
    this.#store = store
    this.#now = now
    this.#log = log
    this.#keyFields = flow.item.key
    this.#readKey = createKeyReader(flow.item)
    this.#wasUnchangedFor = createStabilityCheck(now, monotonicMs)
    const { isGlob } = store.pattern
    const files = definition.files ?? (flow.deletes.mode === 'delete' ? 'newest' : 'all')
    this.#mayMissFiles = isGlob && flow.deletes.mode === 'ignore'
    this.#isNewestOnly = isGlob && files === 'newest'
    // Then the files contain changes.
    this.repeatsKeys = this.#mayMissFiles && definition.after !== 'keep' && !this.#isNewestOnly
  }

  scan({ signal, warn, onFileStart }: Parameters<Source['scan']>[0]) {
    this.#readByLastScan = []
    return this.#scan(signal, { done: this.#readByLastScan, warn, onFileStart })
  }

  async readItem({ key, signal }: Parameters<Source['readItem']>[0]): Promise<SourceRow[]> {
    let omitted: Reason | undefined
    const warn: Warn = ({ why, isIncomplete }) => {
      if (isIncomplete) omitted = why
    }
    const wanted = (row: SourceRow) => hasKey(row, this.#keyFields, key, this.#readKey)
    // Same order as a poll: a record that still waits must not follow a newer state.
    const rows = await matching(this.#scan(signal, { warn, wanted }), wanted)
    if (rows.length === 0 && omitted !== undefined) throw new SourceError(omitted)
    return rows
  }

  async committed(): Promise<void> {
    const files = this.#readByLastScan
    this.#readByLastScan = []
    const { after } = this.#definition
    if (after === 'keep') return
    const access = this.#store.access(this.#closing.signal)
    for (const file of files) {
      try {
        await this.#archiveOrDelete(access, file)
      } catch (error) {
        // The poll is committed anyway; reading the file again would find no change.
        const reason = sentenceOf(describe(error, this.#store.secrets), 'en')
        this.#log.warn({ file: file.path, reason }, `file not ${after}d after the read`)
        if (this.repeatsKeys) this.#pendingFiles.push(file)
      }
    }
    await access.close()
  }

  async close(): Promise<void> {
    this.#closing.abort(new SourceClosedError())
  }

  #scan(callerSignal: AbortSignal, options: ScanOptions) {
    const signal = AbortSignal.any([callerSignal, this.#closing.signal])
    return limitRows(this.#read(signal, options), this.#definition.limits.maxRows)
  }

  async *#read(signal: AbortSignal, options: ScanOptions): AsyncGenerator<SourceRow[]> {
    const { fetchSize } = this.#definition.limits
    const access = this.#store.access(signal)
    const inStore = withPlace((what) => this.#atStore(what))
    try {
      for await (const batch of inBatches(
        this.#records(access, signal, options),
        fetchSize,
        inStore,
      )) {
        signal.throwIfAborted()
        yield batch
      }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (error instanceof FileNotReadyError || isNoFile(error)) throw error
      throw new SourceError(this.#atStore(describe(error, this.#store.secrets)))
    } finally {
      await access.close()
    }
  }

  async *#records(
    access: FileAccess,
    signal: AbortSignal,
    { done, warn, onFileStart, wanted }: ScanOptions,
  ): AsyncGenerator<SourceRow> {
    if (done) await this.#archiveOrDeletePending(access)
    const seenKeys = this.repeatsKeys ? createKeySet() : undefined
    let before = 0
    const settled = await this.#settledFiles(access, warn)
    const files = this.#isNewestOnly ? settled.slice(-1) : settled
    for (const file of this.repeatsKeys ? files : files.toReversed()) {
      const opened = await access.open(file)
      try {
        if (seenKeys && (await this.#hasSeenItem(opened, file, seenKeys, signal))) return
        const skipsLast = await this.#skipsLastOf(opened, file, warn)
        onFileStart?.(file.path, before)
        let isFound = false
        for await (const record of recordsOfFile(opened, file, this.#form(), { skipsLast })) {
          const key = seenKeys && rowKey(record, this.#keyFields, this.#readKey)
          if (key) seenKeys?.add(key)
          before += 1
          if (wanted?.(record) === false) continue
          isFound = wanted !== undefined
          yield record
        }
        if (isFound) return
        // Later files may be older than the record that still waits.
        if (skipsLast && this.#mayMissFiles) return
        if (!skipsLast) done?.push(file)
      } finally {
        await opened.close()
      }
    }
    if (!this.#isNewestOnly) return
    const { settleMs } = this.#definition
    done?.push(...settled.slice(0, -1).filter((file) => this.#wasUnchangedFor(file, settleMs)))
  }

  #form() {
    return { ...this.#definition, keyFields: this.#keyFields }
  }

  #atStore(what: Reason): Reason {
    return { code: 'AT_SOURCE', data: { source: this.#store.name, what } }
  }

  #markerOf({ path }: FoundFile, template: string): string {
    return this.#store.beside(path, markerName(template, path))
  }

  /** Why the file waits for a later poll; undefined when it can be read. */
  async #whyNotReady(access: FileAccess, file: FoundFile): Promise<FileNotReadyError | undefined> {
    const { path, unchangedSinceMs } = file
    const { ready, settleMs } = this.#definition
    const maxWaitMs = settleMs + unendedAfterMs
    if (!this.#wasUnchangedFor(file, settleMs)) {
      // After a clock adjustment the calculated time may be in the past or too far in the future.
      const nowMs = this.#now().getTime()
      const endMs = Math.min(Math.max(unchangedSinceMs + settleMs, nowMs), nowMs + settleMs)
      const why: Reason = { code: 'FILE_SETTLING', data: { path, ms: settleMs } }
      return new FileNotReadyError(why, { until: new Date(endMs), maxWaitMs })
    }
    if (ready === undefined) return undefined
    if (isMarkerOf(await access.stat(this.#markerOf(file, ready)), file)) return undefined
    const data = { path, marker: markerName(ready, path) }
    return new FileNotReadyError({ code: 'FILE_WITHOUT_MARKER', data }, { until: null, maxWaitMs })
  }

  async #settledFiles(access: FileAccess, warn: Warn | undefined): Promise<FoundFile[]> {
    const { after, path, ready, settleMs } = this.#definition
    const isMarker = ready === undefined ? () => false : isMarkerName(ready)
    const all = (await access.find()).filter((file) => !isMarker(basename(file.path)))
    if (all.length === 0 && !(this.#mayMissFiles && after !== 'keep')) {
      throw new SourceError({ code: 'NO_FILE', data: { path } })
    }
    for (const [index, file] of all.entries()) {
      if (this.#isNewestOnly && index < all.length - 1) continue
      const reason = await this.#whyNotReady(access, file)
      if (reason === undefined) continue
      if (!this.#mayMissFiles) throw reason
      // Writing does not take that long. The marker is probably missing for good, and all later files wait.
      if (this.#wasUnchangedFor(file, settleMs + unendedAfterMs)) {
        warn?.({ why: this.#atStore(reason.why), isIncomplete: false })
      }
      // Later files wait too: an older state must not follow a newer one.
      return all.slice(0, index)
    }
    return all
  }

  /** Whether an empty file may be one that a writer has just created. */
  #mayBeJustCreated(file: FoundFile, warn: Warn | undefined): boolean {
    if (this.#wasUnchangedFor(file, unendedAfterMs)) return false
    const data = { path: file.path, ms: unendedAfterMs }
    warn?.({ why: this.#atStore({ code: 'FILE_BEGUN', data }), isIncomplete: true })
    return true
  }

  /** Whether the last record waits because it may be truncated. Other formats show where a record ends. */
  async #skipsLastOf(
    opened: OpenedFile,
    file: FoundFile,
    warn: Warn | undefined,
  ): Promise<boolean> {
    const { format, ready } = this.#definition
    if (format !== 'csv' && format !== 'fixed' && format !== 'ndjson') return false
    if (ready !== undefined) return false
    if (file.size === 0) return this.#mayBeJustCreated(file, warn)
    if (format === 'ndjson') return false
    if (await endsItsLastLine(opened, file.size)) return false
    const isIncomplete = !this.#wasUnchangedFor(file, unendedAfterMs)
    const code = isIncomplete ? 'FILE_ENDS_IN_LINE' : 'FILE_ENDS_IN_LINE_TAKEN'
    const data = { path: file.path, ms: unendedAfterMs }
    warn?.({ why: this.#atStore({ code, data }), isIncomplete })
    return isIncomplete
  }

  /** Rejects as the file access does. A file that changed after the read stays for the next poll. */
  async #archiveOrDelete(access: FileAccess, file: FoundFile): Promise<void> {
    const there = await access.stat(file.path)
    if (!there || !isSameFile(there, file)) {
      this.#log.warn({ file: file.path }, 'file changed after the read; it is kept')
      return
    }
    const { after, ready } = this.#definition
    if (after === 'archive') await access.archive(file, this.#now())
    else await access.remove(file.path)
    if (ready !== undefined) await access.remove(this.#markerOf(file, ready))
  }

  /** Repeats a failed archive or delete. Until it succeeds, later files with the same items cannot be read. */
  async #archiveOrDeletePending(access: FileAccess): Promise<void> {
    for (let file = this.#pendingFiles[0]; file; file = this.#pendingFiles[0]) {
      try {
        await this.#archiveOrDelete(access, file)
      } catch (error) {
        const code = this.#definition.after === 'archive' ? 'FILE_NOT_ARCHIVED' : 'FILE_NOT_DELETED'
        const data = { path: file.path, what: describe(error, this.#store.secrets) }
        throw new SourceError({ code, data })
      }
      this.#pendingFiles.shift()
    }
  }

  /** Whether the file has a record of an item that an earlier file had. */
  async #hasSeenItem(
    opened: OpenedFile,
    file: FoundFile,
    seenKeys: KeySet,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (seenKeys.size === 0) return false
    for await (const record of recordsOfFile(opened, file, this.#form(), { skipsLast: false })) {
      signal.throwIfAborted()
      const key = rowKey(record, this.#keyFields, this.#readKey)
      if (key !== null && seenKeys.has(key)) return true
    }
    return false
  }
}

function isNoFile(error: unknown): boolean {
  return error instanceof SourceError && error.why.code === 'NO_FILE'
}
