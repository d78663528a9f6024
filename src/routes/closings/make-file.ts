import { Worker } from 'node:worker_threads'
import type { FileOrder } from './closing-file-thread.ts'

const memory = { maxOldGenerationSizeMb: 512 }
let previous: Promise<unknown> = Promise.resolve()

/**
 * Makes a file of a closing in a thread of its own, since a workbook of 10,000 charges takes over half a second of a processor and this
 * thread serves the tills. One file at a time. Resolves with the text of a CSV or the bytes of a workbook.
 */
export function makeFile(order: FileOrder): Promise<string | Uint8Array> {
  const made = previous.then(() => inThread(order))
  previous = made.catch(() => undefined)
  return made
}

function inThread(order: FileOrder): Promise<string | Uint8Array> {
  const thread = new Worker(new URL('./closing-file-thread.ts', import.meta.url), {
    workerData: order,
    resourceLimits: memory,
  })
  return new Promise((resolve, reject) => {
    thread.once('message', resolve)
    thread.once('error', reject)
    // After a message this changes nothing.
    thread.once('exit', (code) =>
      reject(new Error(`the thread of a closing's file ended: ${code}`)),
    )
  })
}
