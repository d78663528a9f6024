import type { Reason, ReasonCode } from '../texts/reason.ts'
import type { ChannelDefinition, ChannelDeps, Notification, SendResult } from './channel.ts'

type EmailDefinition = Extract<ChannelDefinition, { type: 'email' }>

export function openEmail(definition: EmailDefinition, deps: ChannelDeps) {
  const { smtpUrl, mailFrom } = deps.mail
  return {
    target: definition.to.join(', '),
    async send(message: Notification, signal?: AbortSignal): Promise<SendResult> {
      if (smtpUrl === undefined || mailFrom === undefined) {
        return { ok: false, why: { code: 'MAIL_NOT_SET_UP' } }
      }
      const clock = AbortSignal.timeout(deps.timeoutMs)
      try {
        // Loaded on demand: few installations send mail, and it has a tenth of the modules of a start.
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
          why: {
            code: 'MAIL_PARTLY_REFUSED',
            data: { refused: rejected.length, all: definition.to.length },
          },
        }
      } catch (error) {
        if (clock.aborted) {
          const seconds = Math.round(deps.timeoutMs / 100) / 10
          return { ok: false, why: { code: 'MAIL_LATE', data: { seconds } } }
        }
        return { ok: false, why: explain(error), ...(isRefusal(error) && { isRefused: true }) }
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
    // Objects are used unchanged, not parsed as lists, names or groups.
    to: to.map((address) => ({ name: '', address })),
    subject: `[tillbridge] ${title}`,
    text: `${blocks
      .filter((block) => block.length > 0)
      .map((block) => block.join('\n'))
      .join('\n\n')}\n`,
    messageId: `<${message.id}@tillbridge>`,
    // A text would be used unchanged, and this one is not in the form of RFC 5322.
    date: new Date(message.at),
    headers: {
      // Prevents automatic replies (RFC 3834).
      'Auto-Submitted': 'auto-generated',
      'Content-Language': locale,
    },
  }
}

const codes = {
  EAUTH: 'MAIL_LOGIN_REFUSED',
  ENOAUTH: 'MAIL_LOGIN_REFUSED',
  EDNS: 'MAIL_SERVER_UNKNOWN',
  ETLS: 'MAIL_NOT_SECURE',
  EREQUIRETLS: 'MAIL_NOT_SECURE',
  ETIMEDOUT: 'MAIL_SERVER_SILENT',
  ECONNECTION: 'MAIL_NO_CONNECTION',
  ESOCKET: 'MAIL_NO_CONNECTION',
  EENVELOPE: 'MAIL_ADDRESSES_REFUSED',
} as const satisfies Record<string, ReasonCode>

/** The server took the addresses, and refused the mail itself for good. */
function isRefusal(error: unknown): boolean {
  const { code, responseCode } = (error ?? {}) as { code?: unknown; responseCode?: unknown }
  return code === 'EMESSAGE' && typeof responseCode === 'number' && responseCode >= 500
}

/** By code and status only, because a server may repeat the login in its text. */
function explain(error: unknown): Reason {
  const given = (error ?? {}) as { code?: unknown; responseCode?: unknown; response?: unknown }
  const known = String(given.code)
  const code = Object.hasOwn(codes, known)
    ? codes[known as keyof typeof codes]
    : 'MAIL_NOT_ACCEPTED'
  const { responseCode, response } = given
  if (typeof responseCode !== 'number') return { code }
  // The enhanced status (RFC 3463) is more exact than the three digits.
  const enhanced = /^\d{3}[ -]([245]\.\d{1,3}\.\d{1,3})\b/.exec(String(response))?.[1]
  return { code, data: { status: [responseCode, enhanced].filter(Boolean).join(' ') } }
}
