import type { Database } from '../../db/database.ts'
import {
  type FlowChange,
  flowChannel,
  tellDeliveries,
} from '../../repositories/flows/flow-events.ts'
import type { Deliveries } from '../deliver/deliver.ts'

/** What changes about flows, in whichever process: hints for those who then look themselves. */
export type FlowNews = {
  /** Calls `onChange` with each change, and `onGap` when some may have been missed, until the returned function is called. */
  follow(onChange: (change: FlowChange) => void, onGap: () => void): () => void
  close(): Promise<void>
}

export type FlowNewsDeps = {
  database: Database
  deliveries: Pick<Deliveries, 'onDelivered' | 'onFinalFailures'>
  log: { warn(fields: object, message: string): void }
}

/** Deliveries are counted by the thousand a second; that they move is told once in this time. */
const tellAfterMs = 500

/** Hears what every process tells about flows, and tells what this one delivers. */
export async function createFlowNews({
  database,
  deliveries,
  log,
}: FlowNewsDeps): Promise<FlowNews> {
  const followers = new Set<Parameters<FlowNews['follow']>>()
  const moved = new Set<string>()
  let timer: NodeJS.Timeout | undefined
  let telling: Promise<void> | undefined

  const tell = async () => {
    timer = undefined
    const flows = [...moved]
    moved.clear()
    await tellDeliveries(database.db, flows).catch((error: unknown) =>
      log.warn({ err: error }, 'deliveries could not be told'),
    )
  }
  const note = (flow: string) => {
    moved.add(flow)
    timer ??= setTimeout(() => {
      telling = tell()
    }, tellAfterMs)
  }
  const forget = [
    deliveries.onDelivered(({ flow }) => note(flow)),
    deliveries.onFinalFailures((finals) => {
      for (const { flow } of finals) note(flow)
    }),
  ]
  const unlisten = await database.listen(
    flowChannel,
    (payload) => {
      const change = JSON.parse(payload) as FlowChange
      for (const [onChange] of [...followers]) onChange(change)
    },
    () => {
      for (const [, onGap] of [...followers]) onGap()
    },
  )

  return {
    follow(...follower) {
      followers.add(follower)
      return () => followers.delete(follower)
    },
    async close() {
      for (const end of forget) end()
      clearTimeout(timer)
      await telling
      await unlisten()
    },
  }
}
