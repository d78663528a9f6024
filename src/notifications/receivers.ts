import type { Agent } from 'undici'
import { Secret } from '../domain/flow-secret.ts'
import { addressPolicyOf } from '../outbound/address-class.ts'
import { createGuardedAgent } from '../outbound/guarded-agent.ts'
import type { Channel, ChannelDefinition, ChannelDeps, Locale } from './channel.ts'
import { openChannel } from './open-channel.ts'

/** How messages about failed deliveries are grouped. */
export type FailureGrouping = {
  /** Before the first message. */
  waitMs: number
  /** Between messages on new failures. */
  intervalMs: number
  /** Between reminders while it lasts. */
  repeatMs: number
  /** One message when all deliveries have arrived. */
  resolved: boolean
}

/** The receivers of all notifications, from the settings. */
export type NotificationSettings = {
  mailTo: readonly string[]
  slackUrl: string | undefined
  webhookUrl: string | undefined
  webhookSecret: string | undefined
  locale: Locale
  quietHours: { from: string; to: string; timezone: string } | undefined
  allowPrivateNetwork: boolean
}

/** Values of settings are secret: only the host of an address is shown. */
export function receiversOf(settings: NotificationSettings): ChannelDefinition[] {
  const { mailTo, slackUrl, webhookUrl, webhookSecret, locale } = settings
  const secret = (value: string, name: string) => new Secret(value, `\${env:${name}}`)
  const receivers: ChannelDefinition[] = []
  if (mailTo.length > 0) receivers.push({ type: 'email', to: mailTo, locale })
  if (slackUrl !== undefined) {
    receivers.push({ type: 'slack', url: secret(slackUrl, 'ALERT_SLACK_URL'), locale })
  }
  if (webhookUrl !== undefined) {
    receivers.push({
      type: 'webhook',
      url: secret(webhookUrl, 'ALERT_WEBHOOK_URL'),
      secret:
        webhookSecret === undefined ? undefined : secret(webhookSecret, 'ALERT_WEBHOOK_SECRET'),
    })
  }
  return receivers
}

/** The notifications of a flow file. */
export type FlowToNotify = {
  name: string
  allowPrivateNetwork: boolean
  reach: { privateHosts: readonly string[] }
  destinations: readonly { name: string }[]
  alerts: {
    onJobFailed: readonly (ChannelDefinition & {
      /** Limits it to these destinations; absent for all. */
      destinations?: readonly string[] | undefined
    })[]
    group: FailureGrouping
  }
}

/** A receiver of a flow. */
export type FlowReceiver = {
  flow: string
  /** Identifies it among the receivers of all flows and of the settings. */
  key: string
  channel: Channel
  destinations: ReadonlySet<string>
  group: FailureGrouping
}

/** An open flow with its receivers and their connections. */
export type NotifiedFlow = { flow: FlowToNotify; receivers: FlowReceiver[]; agent: Agent }

/** Two entries for the same receiver are merged; it gets what either requests. */
export function openReceivers(flow: FlowToNotify, deps: Omit<ChannelDeps, 'agent'>): NotifiedFlow {
  const agent = createGuardedAgent(addressPolicyOf(flow))
  const all = flow.destinations.map(({ name }) => name)
  const receivers = new Map<string, FlowReceiver>()
  for (const definition of flow.alerts.onJobFailed) {
    const channel = openChannel(definition, { ...deps, agent })
    const key = receiverKey(flow.name, channel.key)
    const known = receivers.get(key)
    receivers.set(key, {
      flow: flow.name,
      key,
      channel: known?.channel ?? channel,
      destinations: new Set([...(known?.destinations ?? []), ...(definition.destinations ?? all)]),
      group: flow.alerts.group,
    })
  }
  return { flow, receivers: [...receivers.values()], agent }
}

/** Flow names contain no slash. */
export function receiverKey(flow: string, channel: string): string {
  return `${flow}/${channel}`
}
