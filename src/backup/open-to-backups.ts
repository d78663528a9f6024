import { recordSuccess } from '../payments/audit/activity.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { serviceActor } from '../payments/operations/request-context.ts'
import { rememberBackup } from '../repositories/settings.ts'
import { openSnapshotDoor, type SnapshotDoor } from './snapshot-door.ts'

/**
 * Lets `npm run backup` copy the embedded database while tills go on; each copy is in the audit log. What keeps it from
 * that stops nothing else: it is logged, and undefined is answered, as on PostgreSQL, where the command reads by itself.
 */
export async function openToBackups(
  dataDir: string,
  deps: PaymentDeps,
): Promise<SnapshotDoor | undefined> {
  const { database, now, log } = deps
  if (!database.copyFiles) return undefined
  try {
    return await openSnapshotDoor({
      dataDir,
      copyFiles: database.copyFiles,
      onAsked: () =>
        database.transaction((trx) =>
          recordSuccess(deps, trx, {
            client: null,
            actor: serviceActor(now()),
            action: 'database.copied',
            resourceId: null,
          }),
        ),
      onFinished: (takenAt) => rememberBackup(database.db, takenAt),
      log: (level, fields, message) => log[level](fields, message),
    })
  } catch (error) {
    log.error({ err: error }, 'backups cannot be made while this process runs')
    return undefined
  }
}
