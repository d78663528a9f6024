import { posix } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Attributes, FileEntryWithStats, Stats } from 'ssh2'
import type { Flow } from '../definition/schema.ts'
import { connectionRoom } from '../net/connection-room.ts'
import { SourceError } from '../types.ts'
import type { SourceContext } from './context.ts'
import { codeOf } from './failures.ts'
import {
  archiveFolder,
  archiveNames,
  changedMeanwhile,
  type FileStore,
  type FileVisit,
  type FoundFile,
  filePattern,
  leftUnread,
  namesMatching,
  notRegular,
  oldestFirst,
} from './file-store.ts'
import { fetchFile } from './sftp-fetch.ts'
import { openSftp, type SftpSession, type SftpSettings, unsupported } from './sftp-session.ts'

type SftpDefinition = Extract<Flow['source'], { type: 'sftp' }>
type Context = Pick<SourceContext, 'flow' | 'now' | 'sleep' | 'lookup'>

/** More is no folder that somebody hands files over in. */
const maxEntries = 100_000
/** Up to this the second look at a file that is new is waited for; beyond, the next poll takes it. */
const longestSettleMs = 30_000
/** No clock is wrong by more: of a file older than that it is believed. */
const clockDoubtMs = 24 * 3_600_000
const megabyte = 1024 * 1024

/**
 * Files of a server that speaks SFTP 3. Each is fetched as a whole before its first record is given, into a file of this machine
 * that has no name: a connection that is cut, or a file that changes meanwhile, fails the poll before anything of it is sent.
 *
 * A server tells when a content changed in whole seconds of its own clock, which may be wrong, and programs set that time. So a
 * file counts as still when two looks at it, by our clock `settle` apart, have found the same size and time.
 */
export function sftpFiles(definition: SftpDefinition, context: Context): FileStore {
  const { url, maxMegabytes, settleMs } = definition
  const settings = settingsOf(definition, context)
  const { dir, base } = posix.parse(posix.normalize(definition.path))
  const pattern = filePattern(dir === '' ? '.' : dir, base)
  const room = connectionRoom('sftp', url.reveal(), 'read')
  const sleep = context.sleep ?? ((ms, signal) => wait(ms, undefined, { signal }))
  let seen = new Map<string, { mark: string; sinceMs: number }>()

  /** Notes since when the files of a listing look as they do; those that are gone are forgotten. */
  const remember = (files: readonly (readonly [string, Attributes])[]): FoundFile[] => {
    const nowMs = context.now().getTime()
    const before = seen
    seen = new Map()
    return files.map(([path, attributes]) => {
      const mark = markOf(attributes)
      const known = before.get(path)
      const sinceMs = known?.mark === mark ? known.sinceMs : nowMs
      seen.set(path, { mark, sinceMs })
      const changedMs = (attributes.mtime ?? Number.POSITIVE_INFINITY) * 1_000
      const isOld = changedMs < nowMs - clockDoubtMs
      return { ...found(path, attributes), stillSinceMs: isOld ? changedMs : sinceMs }
    })
  }

  return {
    name: 'sftp source',
    pattern,
    secrets: [settings.password, settings.privateKey, settings.passphrase].flatMap((one) =>
      one === undefined ? [] : [one],
    ),
    beside: (path, name) => posix.join(posix.dirname(path), name),
    visit(signal): FileVisit {
      let session: SftpSession | undefined
      let leaveRoom: () => void = () => undefined
      const leave = async () => {
        session?.end()
        session = undefined
        leaveRoom()
      }
      const connected = async (): Promise<SftpSession> => {
        if (session?.isOpen()) return session
        await leave()
        leaveRoom = await room.take(signal)
        session = await openSftp(settings, signal)
        return session
      }
      const lookAt = async (path: string): Promise<Attributes | undefined> => {
        try {
          return await (await connected()).ask<Stats>(path, (sftp, done) => sftp.lstat(path, done))
        } catch (error) {
          if (codeOf(error) === 'ENOENT') return undefined
          throw error
        }
      }
      const list = async (): Promise<FoundFile[]> => {
        const { folder, name, isGlob } = pattern
        const there: [string, Attributes][] = []
        if (isGlob) {
          const entries = await listFolder(await connected(), folder, namesMatching(name))
          for (const one of entries) there.push([posix.join(folder, one.filename), one.attrs])
        } else {
          const path = posix.join(folder, name)
          const attributes = await lookAt(path)
          if (attributes) there.push([path, attributes])
        }
        const files = there.filter(([, attributes]) => !isGlob || kindOf(attributes) !== 'folder')
        for (const [path, attributes] of files) {
          if (kindOf(attributes) !== 'file') throw notRegular(path)
        }
        return oldestFirst(remember(files))
      }

      return {
        async find() {
          const first = await list()
          const stillMs = context.now().getTime() - settleMs
          const isSettled = first.every(({ stillSinceMs }) => stillSinceMs <= stillMs)
          if (settleMs === 0 || settleMs > longestSettleMs || isSettled) return first
          // A timer may be early by a millisecond.
          await sleep(settleMs + 1, signal)
          return await list()
        },
        async look(path) {
          const attributes = await lookAt(path)
          if (!attributes || kindOf(attributes) !== 'file') return undefined
          return found(path, attributes)
        },
        async open(file) {
          const { path, size } = file
          if (size > maxMegabytes * megabyte) {
            throw new SourceError(
              `${path} has ${size} bytes, more than ${maxMegabytes} MiB (source.maxMegabytes)`,
            )
          }
          const at = await connected()
          const handle = await at.ask<Buffer>(path, (sftp, done) => sftp.open(path, 'r', done))
          try {
            const opened = await attributesOf(at, path, handle)
            if (opened && markOf(opened) !== file.mark) throw changedMeanwhile(path)
            const copy = await fetchFile(at, { handle, path, size })
            const after = await lookAt(path)
            if (!after || markOf(after) !== file.mark) {
              await copy.close()
              throw changedMeanwhile(path)
            }
            return {
              read: (buffer, offset, length, position) =>
                copy.read(buffer, offset, length, position),
              // What is read is a copy, which was compared when it was whole.
              checkSame: async () => undefined,
              close: () => copy.close(),
            }
          } finally {
            // Nothing waits for it: with the connection it is gone too.
            at.ask(path, (sftp, done) => sftp.close(handle, done)).catch(() => undefined)
          }
        },
        async archive({ path, mark }, now) {
          const at = await connected()
          const folder = posix.join(posix.dirname(path), archiveFolder)
          // It is there already, or the rename says what is wrong.
          await at.ask(folder, (sftp, done) => sftp.mkdir(folder, {}, done)).catch(() => undefined)
          const { name, ext } = posix.parse(path)
          for (const one of archiveNames(name, ext, now)) {
            const target = posix.join(folder, one)
            if (await lookAt(target)) continue
            // SFTP 3 renames over nothing that is there.
            await at.ask(target, (sftp, done) => sftp.rename(path, target, done))
            const moved = await lookAt(target)
            if (!moved || markOf(moved) === mark) return
            if (await lookAt(path)) throw leftUnread(path, target)
            await at.ask(path, (sftp, done) => sftp.rename(target, path, done))
            return
          }
        },
        async remove(path) {
          try {
            await (await connected()).ask(path, (sftp, done) => sftp.unlink(path, done))
          } catch (error) {
            if (codeOf(error) !== 'ENOENT') throw error
          }
        },
        leave,
      }
    },
  }
}

function settingsOf(definition: SftpDefinition, { flow, lookup }: Context): SftpSettings {
  const { hostname, port, username } = new URL(definition.url.reveal())
  return {
    host: hostname,
    port: Number(port || 22),
    user: decodeURIComponent(username),
    password: definition.password?.reveal(),
    privateKey: definition.privateKey?.reveal(),
    passphrase: definition.passphrase?.reveal(),
    hostKeys: definition.hostKey,
    timeoutMs: definition.limits.timeoutMs,
    allowPrivateNetwork: flow.allowPrivateNetwork,
    lookup,
  }
}

async function listFolder(
  session: SftpSession,
  folder: string,
  isWanted: (name: string) => boolean,
): Promise<FileEntryWithStats[]> {
  const handle = await session.ask<Buffer>(folder, (sftp, done) => sftp.opendir(folder, done))
  const wanted: FileEntryWithStats[] = []
  for (let entries = 0; ; ) {
    let more: FileEntryWithStats[]
    try {
      more = await session.ask(folder, (sftp, done) => sftp.readdir(handle, done))
    } catch (error) {
      if (codeOf(error) === 'EOF') break
      throw error
    }
    entries += more.length
    if (entries > maxEntries) throw new SourceError(`${folder} has more than ${maxEntries} files`)
    // A name with a slash is none of this folder.
    wanted.push(...more.filter(({ filename }) => isWanted(filename) && !/[/\0]/.test(filename)))
  }
  session.ask(folder, (sftp, done) => sftp.close(handle, done)).catch(() => undefined)
  return wanted
}

/** Undefined where a server does not tell them of open files. */
async function attributesOf(session: SftpSession, path: string, handle: Buffer) {
  try {
    return await session.ask<Stats>(path, (sftp, done) => sftp.fstat(handle, done))
  } catch (error) {
    if (codeOf(error) === unsupported) return undefined
    throw error
  }
}

/** A server may leave out any of its attributes, whatever the types of the library say. */
type Told = Partial<Attributes>

function found(path: string, attributes: Told): FoundFile {
  const { size, mtime = 0 } = attributes
  if (size === undefined) throw new SourceError(`the server does not tell the size of ${path}`)
  return {
    path,
    size,
    changedNs: BigInt(mtime) * 1_000_000_000n,
    stillSinceMs: Number.POSITIVE_INFINITY,
    mark: markOf(attributes),
  }
}

function markOf({ size, mtime }: Told): string {
  return `${size}:${mtime}`
}

/** Without a mode it can only be taken for a file; what is none cannot be read as one. */
function kindOf({ mode }: Told): 'file' | 'folder' | 'other' {
  const kind = mode === undefined ? 0o100000 : mode & 0o170000
  if (kind === 0o100000) return 'file'
  return kind === 0o040000 ? 'folder' : 'other'
}
