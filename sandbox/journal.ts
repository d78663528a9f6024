import { closeSync, mkdirSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

export type Journal = {
  lines: () => Iterable<unknown>
  append: (line: string) => void
  close: () => void
}

/** Without a file: for tests. */
export function memoryJournal(): Journal {
  return { lines: () => [], append: () => {}, close: () => {} }
}

/**
 * The append-only file `ledger.ndjson` in `dataDir`. The kernel has a line when `append` returns, so a kill -9 loses
 * nothing that was answered. A second process on the same folder is refused, since two writers would mix their numbers.
 */
export function fileJournal(dataDir: string): Journal {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const lock = takeLock(join(dataDir, 'lock.sqlite'))
  const file = join(dataDir, 'ledger.ndjson')
  const fd = openSync(file, 'a', 0o600)
  let open = true
  return {
    lines: () => readLines(file),
    append: (line) => {
      // A call after the close must not write into a file that reuses the descriptor.
      if (!open) throw new Error('the sandbox is closed')
      const bytes = Buffer.from(`${line}\n`)
      let written = 0
      while (written < bytes.length) written += writeSync(fd, bytes, written)
    },
    close: () => {
      if (!open) return
      open = false
      closeSync(fd)
      lock.close()
    },
  }
}

function takeLock(path: string): DatabaseSync {
  const lock = new DatabaseSync(path, { timeout: 0 })
  try {
    lock.exec('PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE')
  } catch (cause) {
    lock.close()
    throw new Error(`another sandbox is running on ${path}`, { cause })
  }
  return lock
}

/**
 * An incomplete last line was never acknowledged: it is cut off. An invalid line elsewhere means a damaged file, which
 * stops the start.
 */
function readLines(file: string): unknown[] {
  const bytes = readFileSync(file)
  const end = bytes.lastIndexOf(10) + 1
  if (end < bytes.length) truncateSync(file, end)
  const lines = bytes.toString('utf8', 0, end).split('\n').slice(0, -1)
  return lines.map((line, index) => {
    try {
      return JSON.parse(line)
    } catch (cause) {
      throw new Error(`line ${index + 1} of ${file} cannot be read`, { cause })
    }
  })
}
