import { expect, test } from 'vitest'
import { whileSelling } from '../faults/while-selling.ts'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'
import { checkOutVersionBefore } from '../support/version-before.ts'

const salesPerPart = 24

test.skipIf(!postgresUrl)(
  `the version before charges while this one migrates and starts, and both charge on one database (${needsPostgres})`,
  { timeout: 240_000, tags: ['long'] },
  async (context) => {
    const folder = await checkOutVersionBefore().catch((error: unknown) =>
      context.skip(`the version before is not in the history at hand: ${String(error)}`),
    )
    const server = postgresUrl as string
    const name = nameInRun('two_versions')
    await onServer(server, (client) => client.query(`create database ${name}`))
    try {
      const options = { databaseUrl: urlOf(server, name), first: { folder } }
      await whileSelling(options, async ({ processes, first, start, sold, sellMore }) => {
        await sellMore(salesPerPart)
        const before = sold()
        await start(1)
        expect(sold()).toBeGreaterThan(before)
        processes.sendTo(0, 1)
        await sellMore(salesPerPart)
        processes.sendTo(1, 0)
        await sellMore(salesPerPart)
        processes.sendTo(1)
        first.child.kill('SIGTERM')
        expect(await first.ended).toBe(0)
        await sellMore(salesPerPart)
      })
    } finally {
      await dropDatabase(server, name)
    }
  },
)
