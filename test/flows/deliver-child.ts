import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
import { openDatabase } from '../../src/db/open-database.ts'
import { createService, flowOf, receiver } from './deliver-support.ts'

// A process of its own that delivers until it is killed: a line per attempt, at its first byte. After `most` of them no answer
// comes before there is a file `.go`: so it is in the middle of its work for as long as a test needs it there.
const [url = '', file = '', flow = '', concurrency = '', most = '', leaseMs = ''] =
  process.argv.slice(2)
const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
const service = createService(await openDatabase({ databaseUrl: url }), {
  processId: `child-${process.pid}`,
  leaseMs: Number(leaseMs),
})
await service.start()
let begun = 0
const web = receiver(
  async ({ pk, jobKey, attempt, item }) => {
    const line = { pk, jobKey, attempt, hash: item.hash, at: Date.now() }
    appendFileSync(file, `${JSON.stringify(line)}\n`)
    begun += 1
    const isLast = begun > Number(most)
    await wait(10)
    while (isLast && !existsSync(`${file}.go`)) await wait(10)
    return { ok: true }
  },
  () => wait(5),
)
await service.run(flowOf(flow, [{ concurrency: Number(concurrency) }]), [web])
setInterval(() => {
  writeFileSync(`${file}.log`, service.log.lines.map(({ message }) => message).join('\n'))
}, 20)
