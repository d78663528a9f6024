import { Secret } from '../domain/secret.ts'
import type { ChannelDefinition } from './channel.ts'
import type { Locale } from './failure-texts.ts'

/** Who is told, as the settings say it. */
export type AlertSettings = {
  mailTo: readonly string[]
  slackUrl: string | undefined
  webhookUrl: string | undefined
  webhookSecret: string | undefined
  locale: Locale
  quietHours: { from: string; to: string; timezone: string } | undefined
  allowPrivateNetwork: boolean
}

/** The same kinds of receivers that flows have. What settings name is all secret: of an address the host is shown. */
export function receiversOf(settings: AlertSettings): ChannelDefinition[] {
  const { mailTo, slackUrl, webhookUrl, webhookSecret, locale } = settings
  const destinations = undefined
  const secret = (value: string, name: string) => new Secret(value, `\${env:${name}}`)
  return [
    ...(mailTo.length > 0
      ? [{ type: 'email' as const, to: [...mailTo], locale, destinations }]
      : []),
    ...(slackUrl === undefined
      ? []
      : [
          {
            type: 'slack' as const,
            url: secret(slackUrl, 'ALERT_SLACK_URL'),
            locale,
            destinations,
          },
        ]),
    ...(webhookUrl === undefined
      ? []
      : [
          {
            type: 'webhook' as const,
            url: secret(webhookUrl, 'ALERT_WEBHOOK_URL'),
            secret:
              webhookSecret === undefined
                ? undefined
                : secret(webhookSecret, 'ALERT_WEBHOOK_SECRET'),
            destinations,
          },
        ]),
  ]
}
