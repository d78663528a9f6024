import { parseArgs } from 'node:util'
import { checkLoaded } from '../backup/check-filled.ts'
import { withDatabaseParts } from '../backup/database-parts.ts'
import { requireEmbedded, withDatabase } from '../backup/embedded-database.ts'
import { loadInto } from '../backup/fill-database.ts'
import { describeLoaded } from '../backup/move-report.ts'
import { buildInfo } from '../http/build-info.ts'
import { readKeys, readSettings } from './read-settings.ts'
import { type CommandHelp, runCommand, say, UsageError } from './run-command.ts'

const help: CommandHelp = {
  usage: 'DATABASE_URL=postgres://... npm run db:move [-- --to=postgres://HOST/NAME]',
  about:
    'Copies the embedded database in DATA_DIR into an empty PostgreSQL. Stop the service first; the embedded database stays as it is.',
  options: [['--to=URL', 'the PostgreSQL, without a password; without it DATABASE_URL']],
  exitCodes: [
    [0, 'everything is there and verified'],
    [1, 'nothing was changed; the message says why'],
    [2, 'the command line is wrong'],
    [3, 'everything is there, but the audit log does not verify'],
  ],
  example: 'DATABASE_URL=postgres://tillbridge:secret@db/tillbridge npm run db:move',
}

function readTarget(): string | undefined {
  const { to } = parseArgs({ options: { to: { type: 'string' } } }).values
  if (to === undefined) return undefined
  const url = URL.parse(to)
  if (!url || !['postgres:', 'postgresql:'].includes(url.protocol)) throw new UsageError()
  if (url.password !== '' || url.searchParams.has('password')) {
    throw new UsageError(
      'A password in a command line is seen by everybody on this machine: name the database by DATABASE_URL in the environment or in .env',
    )
  }
  return to
}

await runCommand(help, async () => {
  const named = readTarget()
  const config = readSettings()
  const to = named ?? config.databaseUrl
  if (to === undefined) throw new UsageError('Where to? DATABASE_URL is not set')
  const { dataDir } = config
  requireEmbedded(dataDir)
  const takenAt = new Date().toISOString()
  const loaded = await withDatabase({ dataDir }, async (source) => {
    const keys = await readKeys(config, [dataDir])
    return withDatabase({ databaseUrl: to }, (target) =>
      withDatabaseParts(source.db, { version: buildInfo.version, takenAt }, (parts) =>
        loadInto(target, parts, (trx) => checkLoaded(trx, keys)),
      ),
    )
  })
  const { lines, code } = describeLoaded(loaded)
  for (const line of lines) say(line)
  say(
    'Start the service with this DATABASE_URL, and with the ADMIN_TOKEN and ENCRYPTION_KEYS that it had. The embedded database is as it was.',
  )
  return code
})
