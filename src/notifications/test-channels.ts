import { randomUUID } from 'node:crypto'
import { createGuardedAgent } from '../outbound/guarded-agent.ts'
import type { Flow } from '../sync/definition/schema.ts'
import type { AlertResult } from '../sync/flow-service.ts'
import type { ChannelDeps } from './channel.ts'
import { messageId } from './flow-message.ts'
import { textsOf } from './flow-message-texts.ts'
import { openChannel } from './open-channel.ts'

/** Longest time of one message; decisions give it to each channel. */
export const sendTimeoutMs = 10_000

/**
 * Sends a test message to every channel of the flow at once, whatever its filter. Answers in the order of the file, within
 * the time limit; empty when there are no channels.
 */
export async function testAlerts(
  flow: Pick<Flow, 'name' | 'alerts' | 'allowPrivateNetwork'>,
  deps: Pick<ChannelDeps, 'mail' | 'now'> & { timeoutMs?: number },
): Promise<AlertResult[]> {
  // Its own connections: a test must show what a first message meets, not a connection that still stands.
  const agent = createGuardedAgent({ allowPrivateNetwork: flow.allowPrivateNetwork })
  const channelDeps = { timeoutMs: sendTimeoutMs, ...deps, agent }
  try {
    return await Promise.all(
      flow.alerts.onJobFailed.map(async (definition): Promise<AlertResult> => {
        const { type, target, send } = openChannel(definition, channelDeps)
        const result = await send(
          textsOf({
            kind: 'test',
            id: messageId('test', randomUUID()),
            at: deps.now().toISOString(),
            flow: flow.name,
          }),
        )
        return result.ok
          ? { type, target, ok: true }
          : { type, target, ok: false, error: result.error }
      }),
    )
  } finally {
    await agent.destroy()
  }
}
