import { rm } from 'node:fs/promises'
import type { Config } from '../app/config.ts'
import { writeBackup } from '../backup/backup-file.ts'
import { withBackupParts } from '../backup/backup-parts.ts'
import { describeHeader, describeTables } from '../backup/backup-report.ts'
import { requireEmbedded } from '../backup/embedded-database.ts'
import { reportBackup, requestSnapshot } from '../backup/snapshot-socket.ts'
import { type Database, openDatabase } from '../db/database.ts'
import { DatabaseLockedError } from '../db/database-failures.ts'
import { buildInfo } from '../http/build-info.ts'
import { rememberBackup } from '../repositories/settings.ts'
import { readSettings } from './read-settings.ts'
import { type CommandHelp, readArgument, runCommand, say, UsageError } from './run-command.ts'

const help: CommandHelp = {
  usage: 'npm run backup -- FILE',
  about:
    'Writes everything that the database holds at one moment into one file, while the service runs. The settings name the database.',
  exitCodes: [
    [0, 'the file is complete and was read again'],
    [1, 'there is no file; the message says why'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run backup -- /backups/tillbridge-2026-11-26.tar.gz',
}

type Opened = {
  database: Database
  /** Records the finished backup in the database of the service. */
  remember(takenAt: Date): Promise<void>
  close(): Promise<void>
}

/** Opens a copy to read from: a running service keeps its own database. */
async function openUndisturbed(config: Config): Promise<Opened> {
  if (config.databaseUrl !== undefined) {
    return own(await openDatabase({ databaseUrl: config.databaseUrl }))
  }
  const { dataDir } = config
  requireEmbedded(dataDir)
  try {
    return own(await openDatabase({ dataDir }))
  } catch (error) {
    if (!(error instanceof DatabaseLockedError)) throw error
  }
  return await openSnapshot(dataDir)
}

function own(database: Database): Opened {
  return {
    database,
    remember: (takenAt) => rememberBackup(database.db, takenAt),
    close: () => database.close(),
  }
}

async function openSnapshot(dataDir: string): Promise<Opened> {
  const folder = await requestSnapshot(dataDir)
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    const database = await openDatabase({ dataDir: folder })
    return {
      database,
      remember: (takenAt) => reportBackup(dataDir, takenAt),
      close: async () => {
        await database.close()
        await remove()
      },
    }
  } catch (error) {
    await remove()
    throw error
  }
}

await runCommand(help, async () => {
  const path = readArgument()
  if (path === undefined) throw new UsageError()
  const startedAt = new Date()
  const takenAt = startedAt.toISOString()
  const { database, remember, close } = await openUndisturbed(readSettings())
  try {
    const content = await database.maintenance((db) =>
      withBackupParts(db, { version: buildInfo.version, takenAt }, (source) =>
        writeBackup(path, source),
      ),
    )
    say(`${path}: ${describeHeader(content.header)}; written and read again:`)
    for (const line of describeTables(content.totals)) say(line)
    await remember(startedAt).catch((error: unknown) => {
      say(
        `The time of this backup could not be noted for GET /metrics: ${(error as Error).message}`,
      )
    })
    const archives = content.totals.tables.activity_archives?.rows ?? 0
    if (archives > 0) {
      say(`Not in it: the ${archives} files in AUDIT_ARCHIVE_DIR that belong to it. Copy them too.`)
    }
    say('Not in it: ENCRYPTION_KEYS and ADMIN_TOKEN (or DATA_DIR/secrets). Keep them elsewhere.')
    return 0
  } finally {
    await close()
  }
})
