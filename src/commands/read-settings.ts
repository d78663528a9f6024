import { type Config, loadConfig, misspeltSettings, spellingHint } from '../app/config.ts'
import { findSecrets, keysSource } from '../app/secrets-file.ts'
import type { KeysAtHand } from '../payments/encryption/check-encryption-keys.ts'

/**
 * The settings of a command, from the environment. A misspelt one is named on standard error, since the command would work with
 * another database or folder than the administrator means.
 *
 * @throws ConfigError
 */
export function readSettings(): Config {
  const config = loadConfig(process.env)
  for (const found of misspeltSettings(process.env)) {
    process.stderr.write(`${spellingHint(found)}\n`)
  }
  return config
}

/** The database that the settings name. */
export function databaseOf({ databaseUrl, dataDir }: Config) {
  return databaseUrl === undefined ? { dataDir } : { databaseUrl }
}

/** The encryption keys. `folders`: those of embedded databases, which may have the keys beside them. */
export async function readKeys(
  config: Config,
  folders = config.databaseUrl === undefined ? [config.dataDir] : [],
): Promise<KeysAtHand> {
  let secrets: Awaited<ReturnType<typeof findSecrets>>
  for (const folder of folders) secrets ??= await findSecrets(folder)
  const [dataDir = config.dataDir] = folders
  return {
    keys: config.encryptionKeys ?? secrets?.encryptionKeys ?? [],
    source: keysSource({ ...config, dataDir }, secrets),
  }
}
