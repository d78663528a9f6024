// Run by db-migrate.test.ts as a process of its own: migrates the database it is given and prints what it applied.

import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open-database.ts'

const [, , databaseUrl = '', folder] = process.argv
const database = await openDatabase({ databaseUrl })
process.send?.({ applied: await migrate(database, folder === undefined ? {} : { folder }) })
await database.close()
process.disconnect?.()
