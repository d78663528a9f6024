import { openPglite } from '../../src/db/pglite-engine.ts'

// Opens the embedded database of a folder and has it parse many statements, each of them new.

const { pglite, disconnect } = await openPglite({
  dataDir: process.argv[2] as string,
  log: () => {},
})
for (let number = 0; number < 400; number += 1) {
  await pglite.exec(
    `select ${number} as a, (select count(*) from pg_class where relname = 'x${number}')`,
  )
}
await disconnect()
process.exit()
