import type { Flow } from '../definition/schema.ts'
import { type Source, SourceError, type SourceRow } from '../types.ts'
import type { SourceContext } from './context.ts'
import { atMost, inBatches, matching } from './counted.ts'
import { describe, sourceFailure } from './failures.ts'
import { archiveFile, deleteFile } from './file-after.ts'
import { type FoundFile, filePattern, findFiles } from './file-list.ts'
import { recordsOfFile } from './file-records.ts'
import { hasKey } from './row-key.ts'

type FileDefinition = Extract<Flow['source'], { type: 'file' }>

/**
 * A file, or the files of a pattern, read whole and in the order of their last change.
 *
 * A file that changed less than `settle` ago is left for the next poll. Where the flow sends deletes, and for a file
 * named without `*`, that poll fails: what is not read must not look as if it were gone. In the same way no file at all
 * is a failure, except for a pattern whose files are archived or deleted once they are read, in a flow that sends no
 * deletes: there it means that nothing is new. A file that changes while it is read fails the poll, before its last
 * record is given away.
 */
export function openFileSource(
  definition: FileDefinition,
  { flow, now, log }: Pick<SourceContext, 'flow' | 'now' | 'log'>,
): Source {
  const { limits, after, settleMs } = definition
  const pattern = filePattern(definition.path)
  const mayMissFiles = pattern.isGlob && flow.deletes.mode === 'ignore'
  const closing = new AbortController()
  let readByLastScan: FoundFile[] = []

  const settledFiles = async (): Promise<FoundFile[]> => {
    const all = await findFiles(pattern)
    if (all.length === 0 && !(mayMissFiles && after !== 'keep')) {
      throw new SourceError(`there is no file ${definition.path} to read`)
    }
    // The time of the last change of anything about the file, which no program can set back.
    const youngest = now().getTime() - settleMs
    const unsettled = all.filter(({ stats }) => settleMs > 0 && Number(stats.ctimeMs) > youngest)
    if (unsettled.length > 0 && !mayMissFiles) {
      throw new SourceError(
        `${unsettled[0]?.path} changed less than ${settleMs} ms ago (source.settle); it is read by a later poll`,
      )
    }
    return all.filter((file) => !unsettled.includes(file))
  }

  async function* read(signal: AbortSignal, done: FoundFile[]): AsyncGenerator<SourceRow[]> {
    async function* records(): AsyncGenerator<SourceRow> {
      for (const file of await settledFiles()) {
        yield* recordsOfFile(file, definition)
        done.push(file)
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

  const scan = (callerSignal: AbortSignal, done: FoundFile[]) =>
    atMost(read(AbortSignal.any([callerSignal, closing.signal]), done), limits.maxRows)

  return {
    scan({ signal }) {
      readByLastScan = []
      return scan(signal, readByLastScan)
    },
    readItem: ({ key, signal }) =>
      matching(scan(signal, []), (row) => hasKey(row, flow.item.key, key)),
    async committed() {
      const files = readByLastScan
      readByLastScan = []
      if (after === 'keep') return
      for (const file of files) {
        try {
          const isDone =
            after === 'archive' ? await archiveFile(file, now()) : await deleteFile(file)
          if (!isDone) log.warn({ file: file.path }, 'a file changed after it was read; it stays')
        } catch (error) {
          // It is read again by the next poll, which finds nothing new in it.
          log.warn({ file: file.path, err: error }, `a file that was read cannot be ${after}d`)
        }
      }
    },
    async close() {
      closing.abort(new SourceError('the source was closed'))
    },
  }
}
