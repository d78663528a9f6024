import { existsSync, globSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { asksForDatabase } from './asks-database.ts'

/** Of the files that would ask for PostgreSQL: those that prove nothing more there, with the reason. */
const nothingMore: Record<string, readonly string[]> = {
  'they compare documents and pages with the routes, and hardly read a row': [
    'test/checks/routes.test.ts',
    'test/docs/body-examples.test.ts',
    'test/docs/references.test.ts',
    'test/docs/retention.test.ts',
    'test/payment/openapi.test.ts',
  ],
  'who may ask is decided before a row is read, but for the keys, which test/payment/api-keys.test.ts reads there':
    ['test/flows/control-access.test.ts', 'test/payment/access.test.ts'],
  'the rules for alerts are held against figures, which test/metrics/payment-metrics.test.ts reads there':
    ['test/metrics/ops.test.ts'],
  'a command that is misused ends before it opens a database': [
    'test/process/commands-help.test.ts',
  ],
  'they measure the processor and the memory of this process': [
    'test/flows/sources-memory.test.ts',
    'test/flows/sources-sql-portions.test.ts',
    'test/http/event-loop-answers.test.ts',
    'test/http/event-loop-requests.test.ts',
  ],
  'they or their processes open an embedded database of their own': [
    'test/backup/move.test.ts',
    'test/backup/dump.test.ts',
    'test/db/db-event-loop.test.ts',
    'test/db/db-pglite-dialect.test.ts',
    'test/process/behind-nginx.test.ts',
    'test/process/closings.test.ts',
    'test/process/main.test.ts',
    'test/process/rotate-secrets.test.ts',
  ],
  'they read sources, which are the same servers either way': [
    'test/flows/sources-sql-select.test.ts',
  ],
  'a whole day or chain, of statements that the tests of its parts play there': [
    'test/closings/seeded-chain.test.ts',
    'test/closings/seeded-day.test.ts',
    'test/fleet/chain-day.test.ts',
    'test/flows/shop-day.test.ts',
    'test/flows/shop-limits.test.ts',
    'test/flows/shop-templates.test.ts',
    'test/fuzz/fuzz.test.ts',
    'test/notifications/chain-alerts.test.ts',
  ],
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const known = Object.values(nothingMore).flat()
for (const file of known) if (!existsSync(join(root, file))) throw new Error(`no file ${file}`)

/** What is played on PostgreSQL: what asks for TEST_DATABASE_URL, but for what proves nothing more there. */
export const playedOnPostgres: readonly string[] = globSync('test/**/*.test.ts', {
  cwd: root,
}).filter((file) => asksForDatabase(join(root, file)) && !known.includes(file))
