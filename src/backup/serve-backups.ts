import { recordSuccess } from '../payments/audit/activity.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { serviceActor } from '../payments/operations/request-context.ts'
import { rememberBackup } from '../repositories/settings.ts'
import { openSnapshotSocket } from './snapshot-socket.ts'

/**
 * Lets `npm run backup` copy the embedded database while tills continue; each copy is in the audit log. A failure here
 * stops nothing else: it is logged and the result is undefined. So it is on PostgreSQL, which the command reads itself.
 */
export async function serveBackups(
  dataDir: string,
  deps: PaymentDeps,
): Promise<(() => Promise<void>) | undefined> {
  const { database, now, log } = deps
  if (!database.copyFiles) return undefined
  try {
    return await openSnapshotSocket({
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
    log.error(
      { err: error },
      'backup socket not opened: no backup is possible while this process runs',
    )
    return undefined
  }
}
