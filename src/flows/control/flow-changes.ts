import type { Database } from '../../db/database.ts'
import {
  type FlowChange,
  flowChannel,
  notifyDeliveries,
} from '../../repositories/flows/flow-events.ts'
import type { Deliveries } from '../deliver/deliver.ts'

/** Changes of flows in all processes. They are hints: subscribers read the state themselves. */
export type FlowChanges = {
  /** Calls `onChange` with each change, and `onGap` when some may have been missed, until the returned function is called. */
  follow(onChange: (change: FlowChange) => void, onGap: () => void): () => void
  close(): Promise<void>
}

export type FlowChangesDeps = {
  database: Database
  deliveries: Pick<Deliveries, 'onDelivered' | 'onFinalFailures'>
  log: { warn(fields: object, message: string): void }
}

/** Deliveries change by the thousand a second. Subscribers get one hint in this time. */
const notifyAfterMs = 500

/** Follows changes of flows in all processes, and notifies them of deliveries of this one. */
export async function createFlowChanges({
  database,
  deliveries,
  log,
}: FlowChangesDeps): Promise<FlowChanges> {
  const followers = new Set<Parameters<FlowChanges['follow']>>()
  const moved = new Set<string>()
  let timer: NodeJS.Timeout | undefined
  let notifying: Promise<void> | undefined

  const notify = async () => {
    timer = undefined
    const flows = [...moved]
    moved.clear()
    await notifyDeliveries(database.db, flows).catch((error: unknown) =>
      log.warn({ err: error }, 'delivery events not sent to the page'),
    )
  }
  const note = (flow: string) => {
    moved.add(flow)
    timer ??= setTimeout(() => {
      notifying = notify()
    }, notifyAfterMs)
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
      await notifying
      await unlisten()
    },
  }
}
