import type { ChannelDefinition, ChannelDeps, Notification, SendResult } from './channel.ts'

type EmailDefinition = Extract<ChannelDefinition, { type: 'email' }>

export function openEmail(definition: EmailDefinition, deps: ChannelDeps) {
  const { smtpUrl, mailFrom } = deps.mail
  return {
    target: definition.to.join(', '),
    async send(message: Notification, signal?: AbortSignal): Promise<SendResult> {
      if (smtpUrl === undefined || mailFrom === undefined) {
        return { ok: false, error: 'SMTP_URL and MAIL_FROM are not set' }
      }
      const clock = AbortSignal.timeout(deps.timeoutMs)
      try {
        // On demand: few installations send mail, and it takes a start a tenth of its modules.
        const { createTransport } = await import('nodemailer')
        const { rejected } = await createTransport(smtpUrl).sendMail({
          ...mailOf(message, definition),
          from: mailFrom,
          signal: signal ? AbortSignal.any([clock, signal]) : clock,
        })
        if (rejected.length === 0) return { ok: true }
        return {
          ok: false,
          partly: true,
          error: `the mail server refused ${rejected.length} of ${definition.to.length} addresses`,
        }
      } catch (error) {
        if (clock.aborted) {
          const seconds = Math.round(deps.timeoutMs / 100) / 10
          return { ok: false, error: `the mail server did not take the mail within ${seconds} s` }
        }
        return { ok: false, error: explain(error) }
      }
    },
  }
}

function mailOf(message: Notification, { to, locale }: EmailDefinition) {
  const { title, facts, examples, advice, command } = message.text(locale)
  const blocks = [
    facts,
    examples.map(({ pk, error }) => `- ${pk}: ${error}`),
    [...advice, ...(command === null ? [] : [`  ${command}`])],
  ]
  return {
    // As objects they are taken as they are, not parsed as lists, names or groups.
    to: to.map((address) => ({ name: '', address })),
    subject: `[tillbridge] ${title}`,
    text: `${blocks
      .filter((block) => block.length > 0)
      .map((block) => block.join('\n'))
      .join('\n\n')}\n`,
    messageId: `<${message.id}@tillbridge>`,
    // A text would be taken as it is, and this one is not in the form of RFC 5322.
    date: new Date(message.at),
    headers: {
      // No vacation note should answer (RFC 3834).
      'Auto-Submitted': 'auto-generated',
      'Content-Language': locale,
    },
  }
}

const reasons: Readonly<Record<string, string>> = {
  EAUTH: 'the mail server refused the login',
  ENOAUTH: 'the mail server refused the login',
  EDNS: 'the name of the mail server was not found',
  ETLS: 'no secure connection to the mail server',
  EREQUIRETLS: 'no secure connection to the mail server',
  ETIMEDOUT: 'the mail server did not answer in time',
  ECONNECTION: 'no connection to the mail server',
  ESOCKET: 'no connection to the mail server',
  EENVELOPE: 'the mail server refused the sender or the addresses',
}

/** By code and status only: a server may repeat the login in its words. */
function explain(error: unknown): string {
  const { code, responseCode, response } = (error ?? {}) as {
    code?: unknown
    responseCode?: unknown
    response?: unknown
  }
  const reason = reasons[String(code)] ?? 'the mail server did not take the mail'
  if (typeof responseCode !== 'number') return reason
  // The enhanced status (RFC 3463) says what the three digits leave open.
  const enhanced = /^\d{3}[ -]([245]\.\d{1,3}\.\d{1,3})\b/.exec(String(response))?.[1]
  return `${reason} (${[responseCode, enhanced].filter(Boolean).join(' ')})`
}
