import type { AddressPolicy } from '../outbound/address-class.ts'
import { createGuardedAgent } from '../outbound/guarded-agent.ts'
import type { Reason } from '../texts/reason.ts'
import type { ChannelDefinition, ChannelDeps, Notification } from './channel.ts'
import { openChannel } from './open-channel.ts'

/** Time limit of one message. */
export const sendTimeoutMs = 10_000

export type ChannelTest = { type: string; target: string; ok: boolean; why?: Reason }

/**
 * Sends a message to every receiver in parallel. Returns results in their order, within the time limit; empty without
 * receivers.
 */
export async function testChannels(
  receivers: readonly ChannelDefinition[],
  message: () => Notification,
  deps: Pick<ChannelDeps, 'mail' | 'now'> & AddressPolicy & { timeoutMs?: number },
): Promise<ChannelTest[]> {
  // Separate connections: a test must show the state of a first message, not of an open connection.
  const { allowPrivateNetwork, privateHosts } = deps
  const agent = createGuardedAgent({ allowPrivateNetwork, privateHosts })
  const channelDeps = { timeoutMs: sendTimeoutMs, ...deps, agent }
  try {
    return await Promise.all(
      receivers.map(async (definition): Promise<ChannelTest> => {
        const { type, target, send } = openChannel(definition, channelDeps)
        const result = await send(message())
        return { type, target, ok: result.ok, ...(!result.ok && { why: result.why }) }
      }),
    )
  } finally {
    await agent.destroy()
  }
}
