import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, realpath, rm } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join, relative } from 'node:path'
import { z } from 'zod'
import { DatabaseLockedError } from '../db/database-failures.ts'
import type { Log } from '../db/engine.ts'
import { lockFolder } from '../db/folder-lock.ts'
import { CopyError } from './backup-parts.ts'

type SnapshotSocketOptions = {
  dataDir: string
  /** Like Database.copyFiles. */
  copyFiles: (folder: string, signal: AbortSignal) => Promise<void>
  /** Called before each copy. */
  onAsked: () => Promise<void>
  /** Called when a backup from a copy is finished. */
  onFinished: (takenAt: Date) => Promise<void>
  log: Log
}

const request = 'snapshot\n'
const finishedForm = /^finished (\S+)\n$/
const answerForm = z.union([z.object({ snapshot: z.string() }), z.object({ error: z.string() })])
const notedForm = z.object({ noted: z.boolean() })
const idForm = /^[0-9a-f]{16}$/
/** The kernel's limit for the address of a Unix socket is 107 bytes on Linux, 103 on macOS. */
const longestAddress = 100

/**
 * Where `npm run backup` asks the running service, which alone can use the embedded database, for a copy of its files:
 * a Unix socket in the data folder, or a named pipe on Windows. It cannot be reached over a network, and its result is
 * usable only with read access to the data folder: the answer is the name of a folder in it, never a path. Returns what
 * closes it.
 */
export async function openSnapshotSocket(
  options: SnapshotSocketOptions,
): Promise<() => Promise<void>> {
  const { dataDir, log } = options
  const address = await socketAddress(dataDir)
  if (address === undefined) {
    log('warn', { dataDir }, 'the path of the data folder is too long for backups while this runs')
    return async () => {}
  }
  await removeSnapshots(dataDir)
  const stopped = new AbortController()
  let running: Promise<void> | undefined
  const server = createServer((socket) => {
    socket.setEncoding('utf8')
    socket.on('error', () => {})
    socket.once('data', (text) => {
      const takenAt = finishedForm.exec(String(text))?.[1]
      if (takenAt !== undefined) return note(options, socket, new Date(takenAt))
      if (String(text) !== request) return socket.destroy()
      if (running) return answer(socket, { error: 'another backup is being made' })
      running = serve(options, socket, stopped.signal).finally(() => {
        running = undefined
      })
    })
  })
  // Left by a killed process; the folder is locked for this process, so no other one listens there.
  if (process.platform !== 'win32') await rm(address, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(address, resolve)
  })
  if (process.platform !== 'win32') await chmod(address, 0o600)
  return async () => {
    stopped.abort(new Error('the service stops'))
    server.close()
    await running
  }
}

async function serve(
  { dataDir, copyFiles, onAsked, log }: SnapshotSocketOptions,
  socket: Socket,
  stopped: AbortSignal,
): Promise<void> {
  const id = randomBytes(8).toString('hex')
  const folder = snapshotFolder(dataDir, id)
  const leftAlone = new AbortController()
  socket.once('close', () => leftAlone.abort(new Error('the backup client disconnected')))
  const startedAt = performance.now()
  try {
    await removeSnapshots(dataDir)
    await onAsked()
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await copyFiles(folder, AbortSignal.any([stopped, leftAlone.signal]))
    answer(socket, { snapshot: id })
    log('info', { ms: Math.round(performance.now() - startedAt) }, 'the database was copied')
  } catch (error) {
    log('error', { err: error }, 'the database could not be copied')
    answer(socket, { error: 'the service could not make the copy; its log says why' })
    await rm(folder, { recursive: true, force: true })
  }
}

function note({ onFinished, log }: SnapshotSocketOptions, socket: Socket, takenAt: Date): void {
  onFinished(takenAt).then(
    () => answer(socket, { noted: true }),
    (error: unknown) => {
      log('error', { err: error }, 'the time of a backup could not be recorded')
      answer(socket, { noted: false })
    },
  )
}

function answer(
  socket: Socket,
  content: z.infer<typeof answerForm> | z.infer<typeof notedForm>,
): void {
  socket.end(`${JSON.stringify(content)}\n`)
}

/**
 * Asks the service of the data folder for a copy of its database; resolves with a data folder of the copy, which the
 * caller removes.
 *
 * @throws CopyError when no service answers.
 */
export async function requestSnapshot(dataDir: string): Promise<string> {
  const address = await socketAddress(dataDir)
  const noAnswer = (cause?: unknown) =>
    new CopyError(
      `${dataDir} is in use by a process that gives no copies: a service that is just starting or stopping, an older version, or another command. Try again, or stop it first`,
      { cause },
    )
  if (address === undefined) throw noAnswer()
  const text = await ask(address, request).catch((error: unknown) => {
    throw noAnswer(error)
  })
  if (text === '') throw noAnswer()
  const answered = answerForm.parse(JSON.parse(text))
  if ('error' in answered) throw new CopyError(`No backup: ${answered.error}`)
  if (!idForm.test(answered.snapshot)) throw noAnswer()
  return snapshotFolder(dataDir, answered.snapshot)
}

/**
 * Reports a finished backup to the service of the data folder.
 *
 * @throws CopyError when the service does not record it.
 */
export async function reportBackup(dataDir: string, takenAt: Date): Promise<void> {
  const address = await socketAddress(dataDir)
  const text = address && (await ask(address, `finished ${takenAt.toISOString()}\n`))
  if (text && notedForm.parse(JSON.parse(text)).noted) return
  throw new CopyError('the service did not note it; its log may say why')
}

async function ask(address: string, question: string): Promise<string> {
  const socket = connect(address)
  socket.setEncoding('utf8')
  socket.write(question)
  let text = ''
  for await (const chunk of socket) text += chunk
  return text
}

function snapshotFolder(dataDir: string, id: string): string {
  return join(dataDir, 'snapshots', id)
}

/** Removes what killed commands left; a command that still reads has its folder locked. */
async function removeSnapshots(dataDir: string): Promise<void> {
  const ids = await readdir(join(dataDir, 'snapshots')).catch(() => [])
  for (const id of ids) {
    const folder = snapshotFolder(dataDir, id)
    try {
      lockFolder(folder)()
    } catch (error) {
      if (error instanceof DatabaseLockedError) continue
      throw error
    }
    await rm(folder, { recursive: true, force: true })
  }
}

/** The same for any spelling of the folder's path; undefined when its path is too long. */
async function socketAddress(dataDir: string): Promise<string | undefined> {
  const folder = await realpath(dataDir)
  if (process.platform === 'win32') {
    const name = createHash('sha256').update(folder.toLowerCase()).digest('hex').slice(0, 32)
    return `\\\\.\\pipe\\tillbridge-${name}`
  }
  const path = join(folder, 'backup.sock')
  return [path, relative(process.cwd(), path)].find(
    (address) => Buffer.byteLength(address) <= longestAddress,
  )
}
