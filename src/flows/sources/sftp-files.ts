import { posix } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Attributes, FileEntryWithStats, Stats } from 'ssh2'
import { codeOf } from '../../domain/error-code.ts'
import { addressPolicyOf } from '../../outbound/address-class.ts'
import { filePattern, namesMatching } from '../definition/file-pattern.ts'
import type { Flow } from '../definition/schema.ts'
import { connectionLimit } from '../net/connection-limit.ts'
import { SourceError } from '../types.ts'
import {
  archiveFolder,
  archiveNames,
  changedMeanwhile,
  type FileAccess,
  type FileStore,
  type FoundFile,
  leftUnread,
  notRegular,
  oldestFirst,
} from './file-store.ts'
import { fetchFile } from './sftp-fetch.ts'
import { openSftp, type SftpSession, type SftpSettings, unsupported } from './sftp-session.ts'
import type { SourceContext } from './source-context.ts'

type SftpDefinition = Extract<Flow['source'], { type: 'sftp' }>
type Context = Pick<SourceContext, 'flow' | 'now' | 'sleep' | 'lookup'>

/** A transfer folder does not have more entries. */
const maxEntries = 100_000
/** Up to this duration the poll waits for the second observation of a new file. Above it, the next poll reads the file. */
const longestSettleMs = 30_000
/** Largest expected error of a server's clock. An older change time is trusted. */
const maxClockErrorMs = 24 * 3_600_000
const megabyte = 1024 * 1024

/**
 * Files of an SFTP 3 server. Each file is copied completely into an unnamed local file before its first record is yielded. A
 * broken connection or a change during the copy fails the poll before anything is sent.
 *
 * Servers report change times in whole seconds of their own clock, which may be wrong, and programs can set them. So a file
 * counts as unchanged when two observations, `settle` apart by our clock, show the same size and time.
 */
export function sftpFiles(definition: SftpDefinition, context: Context): FileStore {
  const { url, maxMegabytes, settleMs } = definition
  const settings = settingsOf(definition, context)
  const { dir, base } = posix.parse(posix.normalize(definition.path))
  const pattern = filePattern(dir === '' ? '.' : dir, base)
  const connections = connectionLimit('sftp', url.reveal(), 'read')
  const sleep = context.sleep ?? ((ms, signal) => wait(ms, undefined, { signal }))
  let seen = new Map<string, { mark: string; sinceMs: number }>()

  /** Records since when each listed file has looked the same, and forgets files that are no longer listed. */
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
      const isOld = changedMs < nowMs - maxClockErrorMs
      return { ...found(path, attributes), unchangedSinceMs: isOld ? changedMs : sinceMs }
    })
  }

  return {
    name: 'sftp',
    pattern,
    secrets: [settings.password, settings.privateKey, settings.passphrase].flatMap((one) =>
      one === undefined ? [] : [one],
    ),
    beside: (path, name) => posix.join(posix.dirname(path), name),
    access(signal): FileAccess {
      let session: SftpSession | undefined
      let releaseSlot: () => void = () => undefined
      const close = async () => {
        session?.end()
        session = undefined
        releaseSlot()
      }
      const connected = async (): Promise<SftpSession> => {
        if (session?.isOpen()) return session
        await close()
        releaseSlot = await connections.acquire(signal)
        session = await openSftp(settings, signal)
        return session
      }
      const attributesAt = async (path: string): Promise<Attributes | undefined> => {
        try {
          return await (await connected()).request<Stats>(path, (sftp, done) =>
            sftp.lstat(path, done),
          )
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
          const attributes = await attributesAt(path)
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
          const unchangedMs = context.now().getTime() - settleMs
          const isSettled = first.every(({ unchangedSinceMs }) => unchangedSinceMs <= unchangedMs)
          if (settleMs === 0 || settleMs > longestSettleMs || isSettled) return first
          // A timer may fire one millisecond early.
          await sleep(settleMs + 1, signal)
          return await list()
        },
        async stat(path) {
          const attributes = await attributesAt(path)
          if (!attributes || kindOf(attributes) !== 'file') return undefined
          return found(path, attributes)
        },
        async open(file) {
          const { path, size } = file
          if (size > maxMegabytes * megabyte) {
            throw new SourceError({
              code: 'FILE_TOO_LARGE',
              data: { path, size, most: maxMegabytes },
            })
          }
          const at = await connected()
          const handle = await at.request<Buffer>(path, (sftp, done) => sftp.open(path, 'r', done))
          try {
            const opened = await attributesOf(at, path, handle)
            if (opened && markOf(opened) !== file.mark) throw changedMeanwhile(path)
            const copy = await fetchFile(at, { handle, path, size })
            const after = await attributesAt(path)
            if (!after || markOf(after) !== file.mark) {
              await copy.close()
              throw changedMeanwhile(path)
            }
            return {
              read: (buffer, offset, length, position) =>
                copy.read(buffer, offset, length, position),
              // Reads use the copy, which was checked after the transfer.
              checkSame: async () => undefined,
              close: () => copy.close(),
            }
          } finally {
            // No need to wait: closing the connection also closes the handle.
            at.request(path, (sftp, done) => sftp.close(handle, done)).catch(() => undefined)
          }
        },
        async archive({ path, mark }, now) {
          const at = await connected()
          const folder = posix.join(posix.dirname(path), archiveFolder)
          // The folder may exist already. Any other failure shows in the rename.
          await at
            .request(folder, (sftp, done) => sftp.mkdir(folder, {}, done))
            .catch(() => undefined)
          const { name, ext } = posix.parse(path)
          for (const one of archiveNames(name, ext, now)) {
            const target = posix.join(folder, one)
            if (await attributesAt(target)) continue
            // A rename in SFTP 3 never overwrites a file.
            await at.request(target, (sftp, done) => sftp.rename(path, target, done))
            const moved = await attributesAt(target)
            if (!moved || markOf(moved) === mark) return
            if (await attributesAt(path)) throw leftUnread(path, target)
            await at.request(path, (sftp, done) => sftp.rename(target, path, done))
            return
          }
        },
        async remove(path) {
          try {
            await (await connected()).request(path, (sftp, done) => sftp.unlink(path, done))
          } catch (error) {
            if (codeOf(error) !== 'ENOENT') throw error
          }
        },
        close,
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
    ...addressPolicyOf(flow),
    lookup,
  }
}

async function listFolder(
  session: SftpSession,
  folder: string,
  isWanted: (name: string) => boolean,
): Promise<FileEntryWithStats[]> {
  const handle = await session.request<Buffer>(folder, (sftp, done) => sftp.opendir(folder, done))
  const wanted: FileEntryWithStats[] = []
  for (let entries = 0; ; ) {
    let more: FileEntryWithStats[]
    try {
      more = await session.request(folder, (sftp, done) => sftp.readdir(handle, done))
    } catch (error) {
      if (codeOf(error) === 'EOF') break
      throw error
    }
    entries += more.length
    if (entries > maxEntries) {
      throw new SourceError({ code: 'TOO_MANY_FILES', data: { folder, most: maxEntries } })
    }
    // A name with a slash is not in this folder.
    wanted.push(...more.filter(({ filename }) => isWanted(filename) && !/[/\0]/.test(filename)))
  }
  session.request(folder, (sftp, done) => sftp.close(handle, done)).catch(() => undefined)
  return wanted
}

/** Undefined when the server does not support attributes of open files. */
async function attributesOf(session: SftpSession, path: string, handle: Buffer) {
  try {
    return await session.request<Stats>(path, (sftp, done) => sftp.fstat(handle, done))
  } catch (error) {
    if (codeOf(error) === unsupported) return undefined
    throw error
  }
}

/** A server may omit any attribute, although the library's types require them. */
type ReceivedAttributes = Partial<Attributes>

function found(path: string, attributes: ReceivedAttributes): FoundFile {
  const { size, mtime = 0 } = attributes
  if (size === undefined) throw new SourceError({ code: 'SIZE_NOT_SAID', data: { path } })
  return {
    path,
    size,
    changedNs: BigInt(mtime) * 1_000_000_000n,
    unchangedSinceMs: Number.POSITIVE_INFINITY,
    mark: markOf(attributes),
  }
}

function markOf({ size, mtime }: ReceivedAttributes): string {
  return `${size}:${mtime}`
}

/** Without a mode the entry is assumed to be a file; if it is not, reading fails. */
function kindOf({ mode }: ReceivedAttributes): 'file' | 'folder' | 'other' {
  const kind = mode === undefined ? 0o100000 : mode & 0o170000
  if (kind === 0o100000) return 'file'
  return kind === 0o040000 ? 'folder' : 'other'
}
