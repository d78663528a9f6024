import { parseArgs } from 'node:util'
import type { Config } from '../app/config.ts'
import { readMigrationLevel } from '../backup/copied-tables.ts'
import { CopyError } from '../backup/database-parts.ts'
import { requireEmbedded, withDatabase } from '../backup/embedded-database.ts'
import { listMigrations } from '../db/migrate.ts'
import { createEncryption } from '../domain/encryption.ts'
import { OperatorError } from '../errors/operator-error.ts'
import { findAuditKey } from '../payments/audit/audit-key.ts'
import { type ChainCheck, verifyActivityChain } from '../payments/audit/verify-activity.ts'
import { requireFittingKeys } from '../payments/encryption/check-encryption-keys.ts'
import { databaseOf, readKeys, readSettings } from './read-settings.ts'
import { type CommandHelp, runCommand, say } from './run-command.ts'

const help: CommandHelp = {
  usage: 'npm run audit:verify',
  about:
    'Checks the audit log. It changes nothing. The settings name the database and the keys. Beside a running service with the embedded database, ask GET /admin/activity/verify instead.',
  exitCodes: [
    [0, 'every entry is as it was written'],
    [1, 'nothing was checked; the message says why'],
    [2, 'the command line is wrong'],
    [3, 'the audit log does not verify; each line names a place and what is wrong there'],
  ],
  example: 'npm run audit:verify',
}

async function check(config: Config): Promise<ChainCheck> {
  if (config.databaseUrl === undefined) requireEmbedded(config.dataDir)
  const atHand = await readKeys(config)
  return withDatabase(databaseOf(config), async ({ db }) => {
    const [known, applied] = [await listMigrations(), await readMigrationLevel(db)]
    if (known.at(-1) !== applied.at(-1)) {
      throw new CopyError(
        `The database was made by another version (its schema is ${applied.at(-1) ?? 'empty'}, not ${known.at(-1)}). Use that version, or start this one first`,
      )
    }
    await requireFittingKeys(db, atHand)
    const auditKey = await findAuditKey(db, createEncryption(atHand.keys))
    if (auditKey === undefined) {
      throw new OperatorError(
        'The database has no audit key (table settings): no service ran on it yet, or the row was removed',
      )
    }
    return await verifyActivityChain({ auditKey, db })
  })
}

await runCommand(help, async () => {
  parseArgs({ options: {} })
  const { valid, start, lost, head, entries, unsealed, findings } = await check(readSettings())
  for (const { seq, entryId, reason } of findings) {
    say(`entry ${seq}: ${reason}${entryId === null ? '' : ` (${entryId})`}`)
  }
  if (!valid) return 3
  if (start > 0) say(`Entries up to place ${start} were deleted for their age (KEEP_AUDIT_DAYS).`)
  if (lost !== null) {
    say(`What entries up to place ${lost} say was not checked: their audit key was lost.`)
  }
  say(
    `The audit log verifies: ${entries} entries up to ${head.hash}, ${unsealed} more wait for their seal.`,
  )
  return 0
})
