import { mkdir, open, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { folderOf, type Places } from './definition.ts'
import { type Lane, recordsOf } from './lane.ts'
import type { SourceItem } from './truth.ts'

export type Writer = {
  /** Whether all that changed is where the flow reads it. */
  isUpToDate(): boolean
  stop(): Promise<void>
}

/** Of files of news a poll takes few: an ERP that went on would be ahead of a slow machine by hundreds of them. */
const mostUnread = 5

/**
 * An ERP that writes files, and stands still in the middle of them: anywhere where a marker says when one is whole, within a
 * line where only that tells.
 */
export async function startFileWriter(
  lane: Lane,
  places: Places,
  isCalm: () => boolean,
): Promise<Writer> {
  const folder = folderOf(lane, places)
  await mkdir(folder, { recursive: true })
  const { chance, play, truth } = lane
  const isNews = play.source === 'files of news'
  let changed = new Set(lane.ids)
  let shown = lane.looks
  let written = 0
  let isWriting = false
  let isStopped = false
  truth.onChange((id) => changed.add(id))

  const writeOne = async () => {
    written += 1
    const label = `file ${written}`
    const told = changed
    changed = new Set()
    shown = lane.looks
    const records = recordsOf(lane).filter(({ id }) => !isNews || told.has(id ?? ''))
    if (isNews && records.length === 0) return
    const stem = isNews ? `in-${String(written).padStart(6, '0')}` : 'all'
    const path = join(folder, `${stem}.csv`)
    const text = csvOf(records, lane.looks)
    if (!isCalm() && written > 1 && chance.maybe(`${label} is cut`, 0.6)) {
      const at = cutOf(text, chance.whole(`${label} cut`, 0, text.length - 1), play.withMarker)
      const file = await open(path, 'w')
      await file.write(text.slice(0, at))
      await wait(chance.whole(`${label} stands still`, 20, 900))
      await file.write(text.slice(at))
      await file.close()
      lane.note('a file was cut for a while')
    } else if (chance.maybe(`${label} is renamed`, 0.5)) {
      await writeFile(join(folder, 'new.tmp'), text)
      await rename(join(folder, 'new.tmp'), path)
    } else await writeFile(path, text)
    if (play.withMarker) await writeFile(join(folder, `${stem}.ok`), '')
  }

  const countUnread = async () =>
    (await readdir(folder)).filter((name) => name.endsWith('.csv')).length
  const isBehind = () => changed.size > 0 || shown !== lane.looks
  await writeOne()
  const loop = (async () => {
    while (!isStopped) {
      // Of files of news one is taken by a poll where they tell of the same items.
      await wait(chance.whole(`pause ${written}`, 100, 500) * (isNews && !isCalm() ? 4 : 1))
      if (!isBehind() || (isNews && !isCalm() && (await countUnread()) >= mostUnread)) continue
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

/** Without a marker a file that ends with a line looks whole, and nobody could tell. */
function cutOf(text: string, at: number, withMarker: boolean): number {
  return !withMarker && text[at - 1] === '\n' ? at - 1 : at
}

function csvOf(records: readonly Partial<SourceItem>[], looks: Lane['looks']): string {
  const lines = records.map(({ id, rev, text }) =>
    looks === 'as ever' ? `${id},${rev},${text}` : `${id},${rev}`,
  )
  return [looks === 'as ever' ? 'id,rev,text' : 'id,rev', ...lines, ''].join('\n')
}
