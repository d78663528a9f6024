import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { findSecrets } from '../app/secrets-file.ts'
import { checkBackup, readBackup } from '../backup/backup-file.ts'
import { CopyError } from '../backup/backup-parts.ts'
import { describeHeader, describeLoaded } from '../backup/backup-report.ts'
import { checkLoaded } from '../backup/check-restored.ts'
import { makeEmbedded, withDatabase } from '../backup/embedded-database.ts'
import { loadInto } from '../backup/restore-tables.ts'
import type { Database } from '../db/database.ts'
import { readKeys, readSettings } from './read-settings.ts'
import { type CommandHelp, needFolder, runCommand, say, UsageError } from './run-command.ts'

const help: CommandHelp = {
  usage: 'npm run restore -- FILE [--into FOLDER] [--lost=ID ...]',
  about:
    'Puts a backup into the database that the settings name, which must be empty, or into another folder.',
  options: [
    ['--into FOLDER', 'makes an embedded database in this folder instead'],
    ['--lost=ID', 'goes on without this encryption key, which is lost; once for each key'],
  ],
  exitCodes: [
    [0, 'everything is there and verified'],
    [1, 'nothing was changed; the message says why'],
    [2, 'the command line is wrong'],
    [3, 'everything is there, but the audit log does not verify'],
  ],
  example: 'npm run restore -- /backups/tillbridge-2026-11-26.tar.gz --into ./data-check',
}

type RestoreOptions = { path: string; into: string | undefined; lost: string[] }

function readRestoreOptions(): RestoreOptions {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { into: { type: 'string' }, lost: { type: 'string', multiple: true } },
  })
  const [path, ...more] = positionals
  if (path === undefined || more.length > 0 || values.into === '') throw new UsageError()
  return { path, into: values.into, lost: values.lost ?? [] }
}

await runCommand(help, async () => {
  const { path, into, lost } = readRestoreOptions()
  const config = readSettings()
  const folder = into ?? (config.databaseUrl === undefined ? config.dataDir : undefined)
  if (folder !== undefined) needFolder(folder)
  if ((await stat(path)).isDirectory()) throw new CopyError(`${path} is a folder, not a backup`)
  const { header } = await checkBackup(path)
  say(`${path} is whole: ${describeHeader(header)}`)
  const keys = {
    ...(await readKeys(config, folder === undefined ? [] : [folder, config.dataDir])),
    lost,
    archiveDir: config.auditArchiveDir,
  }
  const load = (target: Database) =>
    loadInto(target, readBackup(path), (trx) => checkLoaded(trx, keys))
  const loaded =
    folder === undefined
      ? await withDatabase({ databaseUrl: config.databaseUrl as string }, load)
      : await makeEmbedded(folder, load)
  const { lines, code } = describeLoaded(loaded)
  for (const line of lines) say(line)
  if (folder !== undefined && config.encryptionKeys === undefined && !(await findSecrets(folder))) {
    say(`Before the start: put the secrets that belong to it into ${resolve(folder)}/secrets.`)
  }
  return code
})
