import { appendFileSync, writeFileSync } from 'node:fs'
import { openDatabase } from '../../src/db/database.ts'
import { createService, flowOf, receiver } from './deliver-support.ts'

// A process of its own that delivers until it is killed: a line per attempt, at its first byte.
const [url = '', file = '', flow = '', concurrency = ''] = process.argv.slice(2)
const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
const service = createService(await openDatabase({ databaseUrl: url }), {
  processId: `child-${process.pid}`,
  leaseMs: 600,
})
await service.start()
const web = receiver(
  async ({ pk, jobKey, attempt, item }) => {
    const line = { pk, jobKey, attempt, hash: item.hash, at: Date.now() }
    appendFileSync(file, `${JSON.stringify(line)}\n`)
    await wait(10)
    return { ok: true }
  },
  () => wait(5),
)
await service.run(flowOf(flow, [{ concurrency: Number(concurrency) }]), [web])
setInterval(() => {
  writeFileSync(`${file}.log`, service.log.lines.map(({ message }) => message).join('\n'))
}, 20)
