import type { ChainCheck } from '../payments/audit/verify-activity.ts'
import type { Header, Totals } from './database-parts.ts'
import type { Loaded } from './fill-database.ts'

/** Done, but the audit log does not verify; it did not before either. */
const brokenLogCode = 3

/** A line for each table that is not empty. */
function describeTables({ tables }: Totals): string[] {
  return Object.entries(tables)
    .filter(([, { rows }]) => rows > 0)
    .map(([name, { rows, digest }]) => `  ${name}: ${rows} (${digest.slice(0, 16)})`)
}

function describeHeader({ version, takenAt, migrations }: Header): string {
  return `taken ${takenAt} by version ${version}, schema ${migrations.at(-1)}`
}

/** What was copied and compared, and the exit code. */
export function describeLoaded({ header, totals, checked }: Loaded<ChainCheck | undefined>): {
  lines: string[]
  code: number
} {
  const rows = Object.values(totals.tables).reduce((sum, table) => sum + table.rows, 0)
  const lines = [
    `${rows} rows, ${describeHeader(header)}; read again from the new database and equal in every table:`,
    ...describeTables(totals),
  ]
  if (checked && !checked.valid) {
    lines.push(
      `The audit log does not verify at entry ${checked.brokenAt}: ${checked.reason}. It was copied as it is.`,
    )
    return { lines, code: brokenLogCode }
  }
  lines.push(
    checked
      ? `The audit log verifies: ${checked.entries + checked.unsealed} entries.`
      : 'No encryption key is set: the audit log was not verified.',
  )
  return { lines, code: 0 }
}
