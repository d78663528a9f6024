import { parentPort, workerData } from 'node:worker_threads'
import { column, contains, tdsServer } from './sources-tds-server.ts'

/** The tables of this server; `pictures` are records of one long text. */
export type LargeTables = {
  pictures: number
  pictureCharacters: number
  wideRows: number
  columns: number
}

/** A thread with a server of large tables, so that its work and memory are separate from the reader's. It reports its address. */
const { pictures, pictureCharacters, wideRows, columns } = workerData as LargeTables
const picture = 'x'.repeat(pictureCharacters)
const long = {
  columns: [column('id', 'int'), column('t', 'text')],
  rows: Array.from({ length: pictures }, (_, id) => [id, picture]),
}
const wide = {
  columns: Array.from({ length: columns }, (_, index) => column(`c${index}`, 'int')),
  rows: Array.from({ length: wideRows }, (_, id) => Array<number>(columns).fill(id)),
}
const server = await tdsServer((request) => {
  if (contains(request, 'pictures')) return long
  return contains(request, 'wide') ? wide : undefined
})
parentPort?.postMessage(server.url)
