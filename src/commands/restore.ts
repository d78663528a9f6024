import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { findSecrets } from '../app/secrets-file.ts'
import { CopyError } from '../backup/database-parts.ts'
import { restoreEmbedded } from '../backup/embedded-database.ts'
import { readSettings } from './read-settings.ts'
import { type CommandHelp, needFolder, runCommand, say, UsageError } from './run-command.ts'

const help: CommandHelp = {
  usage: 'npm run restore -- FILE [--into FOLDER]',
  about:
    'Makes the embedded database in DATA_DIR, or in another folder, from a file of npm run backup. The folder must have no database. The file must be of the same major version of PostgreSQL. A PostgreSQL is restored by pg_restore.',
  options: [['--into FOLDER', 'makes the database in this folder instead']],
  exitCodes: [
    [0, 'the database is there'],
    [1, 'nothing was changed; the message says why'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run restore -- /backups/tillbridge-2026-11-26.tar.gz --into ./data-check',
}

function readRestoreOptions(): { path: string; into: string | undefined } {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { into: { type: 'string' } },
  })
  const [path, ...more] = positionals
  if (path === undefined || more.length > 0 || values.into === '') throw new UsageError()
  return { path, into: values.into }
}

await runCommand(help, async () => {
  const { path, into } = readRestoreOptions()
  const { databaseUrl, dataDir, encryptionKeys } = readSettings()
  if (into === undefined && databaseUrl !== undefined) {
    throw new CopyError(
      'DATABASE_URL names a PostgreSQL: restore it with pg_restore, as docs/how-to/back-up-and-restore.md says',
    )
  }
  const folder = into ?? dataDir
  needFolder(folder)
  if ((await stat(path)).isDirectory()) throw new CopyError(`${path} is a folder, not a backup`)
  await restoreEmbedded(path, folder)
  say(`${resolve(folder)}: the database is there`)
  if (encryptionKeys === undefined && !(await findSecrets(folder))) {
    say(`Before the start: put the secrets that belong to it into ${resolve(folder)}/secrets.`)
  }
  return 0
})
