import { mkdir, open, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { type Endpoints, folderOf } from './definition.ts'
import type { SourceItem } from './source-history.ts'
import { recordsOf, type TestFlow } from './test-flow.ts'

export type Writer = {
  /** Whether all changes are written where the flow reads them. */
  isUpToDate(): boolean
  stop(): Promise<void>
}

/** A poll takes few files of changes. Without this limit an ERP would write hundreds more than a slow machine reads. */
const mostUnread = 5

/**
 * An ERP that writes files and sometimes pauses in the middle of one. With a readiness marker it pauses anywhere; without one
 * only within a line, since an incomplete line alone shows that the file is incomplete.
 */
export async function startFileWriter(
  testFlow: TestFlow,
  endpoints: Endpoints,
  isFaultFree: () => boolean,
): Promise<Writer> {
  const folder = folderOf(testFlow, endpoints)
  await mkdir(folder, { recursive: true })
  const { chance, scenario, sourceHistory } = testFlow
  const isIncremental = scenario.source === 'files of changes'
  let changed = new Set(testFlow.ids)
  let writtenForm = testFlow.recordForm
  let written = 0
  let isWriting = false
  let isStopped = false
  sourceHistory.onChange((id) => changed.add(id))

  const writeOne = async () => {
    written += 1
    const label = `file ${written}`
    const changedIds = changed
    changed = new Set()
    writtenForm = testFlow.recordForm
    const records = recordsOf(testFlow).filter(
      ({ id }) => !isIncremental || changedIds.has(id ?? ''),
    )
    if (isIncremental && records.length === 0) return
    const stem = isIncremental ? `in-${String(written).padStart(6, '0')}` : 'all'
    const path = join(folder, `${stem}.csv`)
    const text = csvOf(records, testFlow.recordForm)
    if (!isFaultFree() && written > 1 && chance.maybe(`${label} is cut`, 0.6)) {
      const at = cutOf(text, chance.whole(`${label} cut`, 0, text.length - 1), scenario.withMarker)
      const file = await open(path, 'w')
      await file.write(text.slice(0, at))
      await wait(chance.whole(`${label} stands still`, 20, 900))
      await file.write(text.slice(at))
      await file.close()
      testFlow.countEvent('a file was incomplete for a while')
    } else if (chance.maybe(`${label} is renamed`, 0.5)) {
      await writeFile(join(folder, 'new.tmp'), text)
      await rename(join(folder, 'new.tmp'), path)
    } else await writeFile(path, text)
    if (scenario.withMarker) await writeFile(join(folder, `${stem}.ok`), '')
  }

  const countUnread = async () =>
    (await readdir(folder)).filter((name) => name.endsWith('.csv')).length
  const isBehind = () => changed.size > 0 || writtenForm !== testFlow.recordForm
  await writeOne()
  const loop = (async () => {
    while (!isStopped) {
      // A poll takes one file of changes when several contain the same items.
      await wait(
        chance.whole(`pause ${written}`, 100, 500) * (isIncremental && !isFaultFree() ? 4 : 1),
      )
      if (!isBehind() || (isIncremental && !isFaultFree() && (await countUnread()) >= mostUnread))
        continue
      isWriting = true
      await writeOne()
      isWriting = false
    }
  })()
  return {
    isUpToDate: () => !isBehind() && !isWriting,
    async stop() {
      isStopped = true
      await loop
    },
  }
}

/** Where the pause is. Without a marker never behind a whole line: such a file looks complete. */
function cutOf(text: string, at: number, withMarker: boolean): number {
  return !withMarker && text[at - 1] === '\n' ? at - 1 : at
}

function csvOf(
  records: readonly Partial<SourceItem>[],
  recordForm: TestFlow['recordForm'],
): string {
  const lines = records.map(({ id, rev, text }) =>
    recordForm === 'complete' ? `${id},${rev},${text}` : `${id},${rev}`,
  )
  return [recordForm === 'complete' ? 'id,rev,text' : 'id,rev', ...lines, ''].join('\n')
}
