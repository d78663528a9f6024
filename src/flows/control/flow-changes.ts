import type { Database } from '../../db/database.ts'
import { type FlowChange, flowChannel } from '../../repositories/flows/flow-events.ts'

/** Changes of flows in all processes. They are hints: subscribers read the state themselves. */
export type FlowChanges = {
  /** Calls `onChange` with each change, and `onGap` when some may have been missed, until the returned function is called. */
  follow(onChange: (change: FlowChange) => void, onGap: () => void): () => void
  close(): Promise<void>
}

export async function followFlowChanges(database: Database): Promise<FlowChanges> {
  const followers = new Set<Parameters<FlowChanges['follow']>>()
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
    close: unlisten,
  }
}
