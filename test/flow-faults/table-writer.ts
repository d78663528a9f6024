import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'
import { tableOf } from './definition.ts'
import type { Writer } from './file-writer.ts'
import type { Lane } from './lane.ts'

/** An ERP that writes tables, one change after the other. */
export async function startTableWriter(databaseUrl: string, lanes: readonly Lane[]) {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  const owed: (() => Promise<void>)[] = []
  let isWriting = false
  let isStopped = false

  const write = async (lane: Lane, id: string) => {
    const table = tableOf(lane)
    const item = lane.truth.get(id)
    if (item) {
      await client.query(
        `insert into ${table} (id, rev, text) values ($1, $2, $3)
         on conflict (id) do update set rev = excluded.rev, text = excluded.text`,
        [item.id, item.rev, item.text],
      )
    } else await client.query(`delete from ${table} where id = $1`, [id])
  }

  for (const lane of lanes) {
    await client.query(`create table ${tableOf(lane)} (id text primary key, rev int, text text)`)
    for (const id of lane.ids) await write(lane, id)
    lane.truth.onChange((id) => owed.push(() => write(lane, id)))
  }
  const loop = (async () => {
    while (!isStopped) {
      // What changes at once is seen at once.
      const together = owed.splice(0)
      isWriting = together.length > 0
      if (together.length === 0) await wait(5)
      else {
        await client.query('begin')
        for (const work of together) await work()
        await client.query('commit')
      }
    }
  })()
  const writer: Writer = {
    isUpToDate: () => !isWriting && owed.length === 0,
    async stop() {
      isStopped = true
      await loop
      await client.end()
    },
  }
  return writer
}
