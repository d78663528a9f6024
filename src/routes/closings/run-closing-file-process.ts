import { fork } from 'node:child_process'
import type { FileRequest } from './closing-file-process.ts'

/** A file of 300,000 charges takes 35 s. */
const longestMs = 300_000
let previous: Promise<unknown> = Promise.resolve()

/**
 * Makes a file of a closing in a process of its own: a workbook of 10,000 charges takes over half a second of a processor, and one of
 * 100,000 charges 760 MB, while this process serves the tills. A thread would not do: V8 may end the whole process when a thread
 * runs out of memory. One file at a time. Resolves with the text of a CSV or the bytes of a workbook.
 */
export function makeClosingFile(request: FileRequest): Promise<string | Uint8Array> {
  const made = previous.then(() => inProcess(request))
  previous = made.catch(() => undefined)
  return made
}

function inProcess(request: FileRequest): Promise<string | Uint8Array> {
  const child = fork(new URL('./closing-file-process.ts', import.meta.url), {
    serialization: 'advanced',
    // It needs no setting, and so knows no secret.
    env: {},
    execArgv: [],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    // One that stands still must not hold up the next file.
    timeout: longestMs,
    killSignal: 'SIGKILL',
  })
  return new Promise((resolve, reject) => {
    child.once('message', (made) => resolve(made as string | Uint8Array))
    // It may come more than once.
    child.on('error', reject)
    // After a message this changes nothing.
    child.once('exit', (code, signal) =>
      reject(new Error(`the process that makes a closing's file ended: ${code ?? signal}`)),
    )
    child.send(request, (error) => error && reject(error))
  })
}
