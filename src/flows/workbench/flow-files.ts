import { createHash } from 'node:crypto'
import { lstatSync, realpathSync, type Stats } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { writeWhole } from '../../files/durable-files.ts'
import { GuardedFileError, readGuardedFile } from '../../files/read-regular-file.ts'
import { whyNotWritable } from '../../files/writable-folder.ts'
import type { Model } from '../api/api-model.ts'
import { controlError } from '../control-errors.ts'
import { maxFlowFileBytes } from '../definition/yaml-file.ts'
import { flowFiles } from '../loading/load-flow-files.ts'
import type { FlowFileResponse } from './workbench-schemas.ts'

type FlowFileModel = Model<typeof FlowFileResponse>

/** `hash`: of the bytes on disk. A save names it, so that it cannot overwrite unseen changes. */
export type FlowFile = Pick<FlowFileModel, 'file' | 'text' | 'hash' | 'changedAt'> & {
  /** A link is followed for reading, inside the folder, and never written. */
  isLink: boolean
  versions: FlowFileVersion[]
}

/** A replaced version, named by its time. */
type FlowFileVersion = FlowFileModel['versions'][number]

export type FlowFiles = {
  folder: string
  /** A message for operators; undefined if files can be saved. */
  whyReadOnly(): string | undefined
  /** The names of the files that the service would load. */
  names(): Promise<string[]>
  /** @throws AppError NOT_FOUND, and FORBIDDEN for a path outside the folder or a path that is no file. */
  read(file: string): Promise<FlowFile>
  /** @throws AppError NOT_FOUND. */
  readVersion(file: string, id: string): Promise<{ text: string; hash: string }>
  /**
   * Writes the file atomically and keeps the replaced version. `base` is the hash of the text that was edited; null
   * for a new file. The caller serializes saves.
   * @throws AppError CONFLICT if the file differs from `base`, FORBIDDEN if it may not be written.
   */
  save(file: string, bytes: Uint8Array, base: string | null): Promise<{ hash: string }>
}

/** The form of flow names, so that a file is named like its flow. */
const newFileName = /^[a-z0-9][a-z0-9_-]{0,63}\.flow\.yaml$/
const versionId = /^\d{8}T\d{9}Z(?:-\d{1,3})?$/
const versionsFolder = '.versions'
const versionsKept = 50
const fileMode = 0o644

/** The flow files of a folder, for reading and changing. No name reaches outside the folder. */
export function createFlowFiles(folder: string, now: () => Date): FlowFiles {
  const versionsOf = join(folder, versionsFolder)

  const names = async () => {
    const found = await flowFiles(folder)
    return 'problem' in found ? [] : found.files
  }
  /** A name must be one that the folder lists, so none leads elsewhere. */
  const requireName = async (file: string) => {
    if (!(await names()).includes(file))
      throw controlError('NOT_FOUND', { code: 'FLOW_FILE_UNKNOWN' })
  }

  const readBytes = (path: string): Buffer => {
    const real = orMissing(() => realpathSync(path))
    if (!real.startsWith(realpathSync(folder) + sep)) {
      throw controlError('FORBIDDEN', { code: 'FLOW_FILE_LINK_OUT' })
    }
    try {
      return readGuardedFile(real, { maxBytes: maxFlowFileBytes })
    } catch (error) {
      if (!(error instanceof GuardedFileError)) throw error
      throw controlError('FORBIDDEN', { code: 'FLOW_FILE_UNREADABLE', data: { what: error.why } })
    }
  }

  /** The old contents of a file, newest first. */
  const listVersions = async (file: string) => {
    if (!isFolder(versionsOf)) return []
    const prefix = `${file}.`
    return (await readdir(versionsOf))
      .filter((name) => name.startsWith(prefix) && name.endsWith('.bak'))
      .map((name) => ({ name, id: name.slice(prefix.length, -'.bak'.length) }))
      .filter(({ id }) => versionId.test(id))
      .sort((left, right) => (left.id < right.id ? 1 : -1))
  }

  const keep = async (file: string, bytes: Uint8Array) => {
    await mkdir(versionsOf, { recursive: true })
    if (!isFolder(versionsOf)) {
      throw controlError('FORBIDDEN', {
        code: 'FLOW_VERSIONS_NO_FOLDER',
        data: { folder: versionsFolder },
      })
    }
    const kept = await listVersions(file)
    const stamp = now().toISOString().replace(/[-:.]/g, '')
    const taken = new Set(kept.map(({ id }) => id))
    let id = stamp
    for (let count = 1; taken.has(id); count++) id = `${stamp}-${count}`
    await writeWhole(join(versionsOf, `${file}.${id}.bak`), bytes)
    for (const { name } of kept.slice(versionsKept - 1)) await rm(join(versionsOf, name))
  }

  return {
    folder,
    whyReadOnly: () => whyNotWritable(folder),
    names,
    async read(file) {
      await requireName(file)
      const path = join(folder, file)
      const stats = orMissing(() => lstatSync(path))
      const bytes = readBytes(path)
      const versions = await listVersions(file)
      return {
        file,
        text: textOf(bytes),
        hash: hashOf(bytes),
        changedAt: stats.mtime,
        isLink: stats.isSymbolicLink(),
        versions: versions.map(({ name, id }) => ({
          version: id,
          replacedAt: timeOf(id),
          bytes: lstatSync(join(versionsOf, name)).size,
        })),
      }
    },
    async readVersion(file, id) {
      await requireName(file)
      const known = (await listVersions(file)).find((one) => one.id === id)
      if (!known) throw controlError('NOT_FOUND', { code: 'FLOW_FILE_VERSION_UNKNOWN' })
      const bytes = readBytes(join(versionsOf, known.name))
      return { text: textOf(bytes), hash: hashOf(bytes) }
    },
    async save(file, bytes, base) {
      if (!newFileName.test(file) && !(await names()).includes(file)) {
        throw controlError('BAD_REQUEST', { code: 'FLOW_FILE_NAME' })
      }
      const path = join(folder, file)
      await mkdir(folder, { recursive: true })
      const before = statsOf(path)
      if (before && !before.isFile()) {
        throw controlError('FORBIDDEN', { code: 'FLOW_FILE_NO_FILE' })
      }
      if (!before && base !== null) throw controlError('CONFLICT', { code: 'FLOW_FILE_REMOVED' })
      if (before) {
        const current = readBytes(path)
        if (base === null) throw controlError('CONFLICT', { code: 'FLOW_FILE_EXISTS' })
        if (hashOf(current) !== base) throw controlError('CONFLICT', { code: 'FLOW_FILE_CHANGED' })
        await keep(file, current)
      }
      await writeWhole(path, bytes, before ? before.mode & 0o777 : fileMode)
      return { hash: hashOf(bytes) }
    },
  }
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes)
}

function statsOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false })
}

/** A link does not count as a folder. */
function isFolder(path: string): boolean {
  return statsOf(path)?.isDirectory() ?? false
}

function orMissing<T>(work: () => T): T {
  try {
    return work()
  } catch {
    throw controlError('NOT_FOUND', { code: 'FLOW_FILE_UNKNOWN' })
  }
}

function timeOf(id: string): Date {
  const [, year, month, day, hour, minute, second, ms] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z/.exec(id) ?? []
  return new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`)
}
