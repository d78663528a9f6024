import { CopyError } from '../backup/database-parts.ts'
import { dumpEmbedded } from '../backup/embedded-database.ts'
import { readSettings } from './read-settings.ts'
import { type CommandHelp, readArgument, runCommand, say, UsageError } from './run-command.ts'

const help: CommandHelp = {
  usage: 'npm run backup -- FILE',
  about:
    'Writes the embedded database in DATA_DIR into one file. Stop the service first. A PostgreSQL is backed up by pg_dump.',
  exitCodes: [
    [0, 'the file is complete'],
    [1, 'there is no file; the message says why'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run backup -- /backups/tillbridge-2026-11-26.tar.gz',
}

await runCommand(help, async () => {
  const path = readArgument()
  if (path === undefined) throw new UsageError()
  const { databaseUrl, dataDir } = readSettings()
  if (databaseUrl !== undefined) {
    throw new CopyError(
      'DATABASE_URL names a PostgreSQL: back it up with pg_dump, as docs/how-to/back-up-and-restore.md says',
    )
  }
  await dumpEmbedded(dataDir, path, new Date())
  say(`${path}: written`)
  say('Not in it: ENCRYPTION_KEYS and ADMIN_TOKEN (or DATA_DIR/secrets). Keep them elsewhere.')
  return 0
})
