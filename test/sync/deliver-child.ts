import { appendFileSync } from 'node:fs'
import { openDatabase } from '../../src/db/database.ts'
import { createService, flowOf, receiver } from './deliver-support.ts'

// A process of its own that delivers until it is killed: a line per attempt, before it is answered.
const [url = '', file = ''] = process.argv.slice(2)
const service = createService(await openDatabase({ databaseUrl: url }), {
  processId: `child-${process.pid}`,
  leaseMs: 600,
})
await service.start()
const web = receiver(async ({ pk, jobKey, attempt }) => {
  appendFileSync(file, `${JSON.stringify({ pk, jobKey, attempt })}\n`)
  await new Promise((resolve) => setTimeout(resolve, 15))
  return { ok: true }
})
await service.run(flowOf('killed', [{ concurrency: 3 }]), [web])
