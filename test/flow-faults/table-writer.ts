import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'
import { tableOf } from './definition.ts'
import type { Writer } from './file-writer.ts'
import type { TestFlow } from './test-flow.ts'

/** An ERP that writes its changes to tables, in their order. */
export async function startTableWriter(databaseUrl: string, testFlows: readonly TestFlow[]) {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  const pending: (() => Promise<void>)[] = []
  let isWriting = false
  let isStopped = false

  const write = async (testFlow: TestFlow, id: string) => {
    const table = tableOf(testFlow)
    const item = testFlow.sourceHistory.get(id)
    if (item) {
      await client.query(
        `insert into ${table} (id, rev, text) values ($1, $2, $3)
         on conflict (id) do update set rev = excluded.rev, text = excluded.text`,
        [item.id, item.rev, item.text],
      )
    } else await client.query(`delete from ${table} where id = $1`, [id])
  }

  for (const testFlow of testFlows) {
    await client.query(
      `create table ${tableOf(testFlow)} (id text primary key, rev int, text text)`,
    )
    for (const id of testFlow.ids) await write(testFlow, id)
    testFlow.sourceHistory.onChange((id) => pending.push(() => write(testFlow, id)))
  }
  const loop = (async () => {
    while (!isStopped) {
      // Changes that belong together are committed together.
      const batch = pending.splice(0)
      isWriting = batch.length > 0
      if (batch.length === 0) await wait(5)
      else {
        await client.query('begin')
        for (const work of batch) await work()
        await client.query('commit')
      }
    }
  })()
  const writer: Writer = {
    isUpToDate: () => !isWriting && pending.length === 0,
    async stop() {
      isStopped = true
      await loop
      await client.end()
    },
  }
  return writer
}
