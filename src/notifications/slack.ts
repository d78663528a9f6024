import type { Answer } from '../outbound/guarded-request.ts'
import type { ChannelDefinition, ChannelDeps, Locale, Notification, SendResult } from './channel.ts'

import { post } from './post.ts'

type SlackDefinition = Extract<ChannelDefinition, { type: 'slack' }>

/** The language for receivers without one; also the default of mails. */
const defaultLocale = 'es'

export function openSlack(definition: SlackDefinition, deps: ChannelDeps) {
  const url = definition.url.reveal()
  return {
    // An incoming webhook of Slack: its path is a secret, so only the host is shown.
    target: `${new URL(url).origin}/***`,
    send: (message: Notification, signal?: AbortSignal): Promise<SendResult> =>
      post(
        deps,
        { url, headers: {}, body: JSON.stringify(slackBody(message, definition.locale)), signal },
        (answer) => slackWord(answer, url),
      ),
  }
}

function slackBody(message: Notification, locale: Locale = defaultLocale) {
  const { title, facts, examples, advice, command } = message.text(locale)
  const lines = [
    `*${plain(title)}*`,
    ...facts.map(plain),
    ...examples.map(({ pk, error }) => `• ${code(pk)}: ${code(error)}`),
    ...advice.map(plain),
    ...(command === null ? [] : [code(command)]),
  ]
  // A text of an item must not trigger a page fetch or preview in the channel.
  return { text: lines.join('\n'), mrkdwn: true, unfurl_links: false, unfurl_media: false }
}

/** Escapes the characters that start mentions, channels, links and `<!channel>` in mrkdwn. */
function plain(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
}

/**
 * Inside code only a backtick is markup, because it would end the code. An empty code would show as two backticks.
 */
function code(text: string): string {
  return `\`${plain(text).replaceAll('`', 'ˋ') || ' '}\``
}

/** Slack returns one word as the error, such as `channel_is_archived`. */
function slackWord({ body }: Answer, url: string): string {
  const word = body.toString('utf8').trim()
  return /^[a-z]+(_[a-z]+){1,6}$/.test(word) && word.length <= 60 && !url.includes(word) ? word : ''
}
