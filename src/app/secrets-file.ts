import { randomBytes } from 'node:crypto'
import { chmod, link, mkdir, open, unlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import type { EncryptionKey } from '../domain/encryption.ts'
import { syncFolder } from '../files/durable-files.ts'
import { GuardedFileError, readGuardedFile } from '../files/read-regular-file.ts'
import type { OwnSecrets } from '../flows/definition/flow-context.ts'
import { type Config, ConfigError, loadConfig } from './config.ts'
import { secretVariables } from './config-schema.ts'

/** `path` is for a message to the operator. The values must not be logged. */
export type Secrets = {
  adminToken: string
  encryptionKeys: readonly EncryptionKey[]
  path: string
  /** True for the one process that created the file. */
  created: boolean
}

/**
 * The administrator token and the encryption key of an embedded database, created at the first start and read at later
 * ones. The file is `<dataDir>/secrets/secrets.env` with `NAME=value` lines (file 0600, folder 0700), in a folder of
 * its own so that a backup of the data can leave it out.
 * @throws ConfigError when the file exists and is not usable: a new key would make the stored tokens unreadable.
 */
export async function ensureSecrets(dataDir: string): Promise<Secrets> {
  const existing = await findSecrets(dataDir)
  if (existing) return existing
  const path = secretsPath(dataDir)
  const folder = dirname(path)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chmod(folder, 0o700)
  const created = await createOnce(folder, path)
  return { ...parse(readSecrets(path), path), path, created }
}

/**
 * The secrets of an earlier start; undefined if there are none. Creates nothing.
 * @throws ConfigError as ensureSecrets does.
 */
export async function findSecrets(dataDir: string): Promise<Secrets | undefined> {
  const path = secretsPath(dataDir)
  const text = await readIfThere(path)
  if (text === undefined) return undefined
  await chmod(dirname(path), 0o700)
  return { ...parse(text, path), path, created: false }
}

/** The source of the encryption keys, for a message to the operator. */
export function keysSource(config: Config, secrets: Secrets | undefined): string {
  if (config.encryptionKeys !== undefined) return 'ENCRYPTION_KEYS in the environment'
  return secrets ? secrets.path : `${secretsPath(config.dataDir)}, which is not there`
}

/** The program, with its packages. */
const programFolder = fileURLToPath(new URL('../..', import.meta.url))

/** What no flow may read or write: authors of flow files may not be allowed to see or change what the service is made of. */
export function ownSecrets(
  config: Pick<Config, 'dataDir' | 'flowsDir' | 'connectionsFile'>,
): OwnSecrets {
  const { dataDir, flowsDir, connectionsFile } = config
  return {
    // DATABASE_URL may leave its password to it.
    variables: new Set([...secretVariables, 'PGPASSWORD']),
    // The npm scripts read their settings from `.env`.
    files: [secretsPath(dataDir), '.env', connectionsFile].map((path) => resolve(path)),
    folders: [programFolder, dataDir, flowsDir].map((path) => resolve(path)),
  }
}

/** Enough for two keys and comments. */
const maxSecretsBytes = 65_536

/** @throws ConfigError when the path is something else, such as a pipe. */
function readSecrets(path: string): string {
  try {
    return readGuardedFile(path, { maxBytes: maxSecretsBytes }).toString('utf8')
  } catch (error) {
    if (!(error instanceof GuardedFileError) || error.code !== undefined) throw error
    throw new ConfigError([{ variable: path, message: error.message }])
  }
}

function secretsPath(dataDir: string): string {
  return join(dataDir, 'secrets', 'secrets.env')
}

/** False when another process was faster: then its file is used. */
async function createOnce(folder: string, path: string): Promise<boolean> {
  const temporary = join(folder, `.secrets-${randomBytes(8).toString('hex')}`)
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(
      [
        '# Made by tillbridge for the embedded database. Losing it makes the stored provider tokens unreadable.',
        `ADMIN_TOKEN=${randomBytes(32).toString('hex')}`,
        `ENCRYPTION_KEYS=k1:${randomBytes(32).toString('base64')}`,
        '',
      ].join('\n'),
    )
    await file.sync()
  } finally {
    await file.close()
  }
  try {
    // A rename would replace the file of a process that started at the same moment; a link fails instead.
    await link(temporary, path)
    await syncFolder(folder)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  } finally {
    await unlink(temporary)
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    const text = readSecrets(path)
    await chmod(path, 0o600)
    return text
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function parse(text: string, path: string): Pick<Secrets, 'adminToken' | 'encryptionKeys'> {
  const { ADMIN_TOKEN, ENCRYPTION_KEYS } = parseEnv(text)
  const { adminToken, encryptionKeys } = loadConfig({ ADMIN_TOKEN, ENCRYPTION_KEYS })
  if (adminToken === undefined || encryptionKeys === undefined) {
    throw new ConfigError([
      {
        variable: path,
        message:
          'must hold ADMIN_TOKEN and ENCRYPTION_KEYS; restore it from a backup, or set both in the environment',
      },
    ])
  }
  return { adminToken, encryptionKeys }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
