import { createHash } from 'node:crypto'
import type { Channel, ChannelDefinition, ChannelDeps } from './channel.ts'
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
