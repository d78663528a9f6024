import { createGuardedAgent } from '../outbound/guarded-agent.ts'
import type { ChannelDefinition, ChannelDeps, Notification } from './channel.ts'
import { openChannel } from './open-channel.ts'

/** Longest time of one message. */
export const sendTimeoutMs = 10_000

export type ChannelTest = { type: string; target: string; ok: boolean; error?: string }

/**
 * Sends a message to every receiver at once. Answers in their order, within the time limit; empty when there are none.
 */
export async function testChannels(
  receivers: readonly ChannelDefinition[],
  message: () => Notification,
  deps: Pick<ChannelDeps, 'mail' | 'now'> & { allowPrivateNetwork: boolean; timeoutMs?: number },
): Promise<ChannelTest[]> {
  // Its own connections: a test must show what a first message meets, not a connection that still stands.
  const agent = createGuardedAgent({ allowPrivateNetwork: deps.allowPrivateNetwork })
  const channelDeps = { timeoutMs: sendTimeoutMs, ...deps, agent }
  try {
    return await Promise.all(
      receivers.map(async (definition): Promise<ChannelTest> => {
        const { type, target, send } = openChannel(definition, channelDeps)
        const result = await send(message())
        return { type, target, ok: result.ok, ...(!result.ok && { error: result.error }) }
      }),
    )
  } finally {
    await agent.destroy()
  }
}
