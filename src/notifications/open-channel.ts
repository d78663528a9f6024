import { createHash } from 'node:crypto'
import type { AddressPolicy } from '../outbound/address-class.ts'
import { createGuardedAgent } from '../outbound/guarded-agent.ts'
import type { Reason } from '../texts/reason.ts'
import type { Channel, ChannelDefinition, ChannelDeps, Notification } from './channel.ts'
import { openEmail } from './email.ts'
import { openSlack } from './slack.ts'
import { openWebhook } from './webhook.ts'

/** Opens the channel to a receiver. It sends nothing before the first message and needs no close. */
export function openChannel(definition: ChannelDefinition, deps: ChannelDeps): Channel {
  return { key: channelKey(definition), type: definition.type, ...open(definition, deps) }
}

/** Derived from the reference in settings or the flow file: a new value, language or filter keeps the key. */
function channelKey(definition: ChannelDefinition): string {
  const receiver =
    definition.type === 'email'
      ? definition.to.toSorted().join(' ').toLowerCase()
      : definition.url.template
  const hash = createHash('sha256').update(receiver).digest('hex').slice(0, 16)
  return `${definition.type}-${hash}`
}

function open(definition: ChannelDefinition, deps: ChannelDeps) {
  switch (definition.type) {
    case 'email':
      return openEmail(definition, deps)
    case 'slack':
      return openSlack(definition, deps)
    case 'webhook':
      return openWebhook(definition, deps)
  }
}

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
