// Run by db-folder.test.ts as a process of its own: opens the folder, then writes rows until it is killed and prints each commit.
import { readFileSync } from 'node:fs'
import { sql } from 'kysely'
import { openDatabase } from '../../src/db/open-database.ts'

const dataDir = process.argv[2] ?? ''
const database = await openDatabase({ dataDir }).catch((error: Error) => {
  process.send?.({ failed: error.name, message: error.message })
  process.exit(3)
})
await sql`create table if not exists written (n int primary key)`.execute(database.db)
await sql`create table if not exists duplicate (n int primary key)`.execute(database.db)
process.send?.({ opened: true, peakMb: peakMb() })
for (let n = 1; ; n++) {
  await database.transaction(async (trx) => {
    await sql`insert into written values (${n})`.execute(trx)
    await sql`insert into duplicate values (${n})`.execute(trx)
  })
  process.send?.({ committed: n })
}

/** Memory of this process alone: on Linux resourceUsage begins with the memory of its parent. */
function peakMb(): number {
  if (process.platform !== 'linux') return process.resourceUsage().maxRSS / 1_024
  const [, kb] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
  return Number(kb) / 1_024
}
