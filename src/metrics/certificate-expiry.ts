import { isIP } from 'node:net'
import { connect } from 'node:tls'

/** When the certificate ends; undefined without a certificate or an answer. Never fails, and takes at most 3 s. */
export type CertificateExpiry = () => Promise<Date | undefined>

const answerWithinMs = 3_000
/** Certificates change every few weeks. */
const rereadMs = 3_600_000
const rereadAfterFailureMs = 300_000

/** Reads the certificate of an https address as a client sees it: that of the proxy in front of us, also when it has expired. */
export function createCertificateExpiry(
  address: string,
  stopwatch = () => performance.now(),
): CertificateExpiry {
  const url = new URL(address)
  let last: { endsAt: Promise<Date | undefined>; untilMs: number } | undefined
  return async () => {
    if (url.protocol !== 'https:') return undefined
    if (!last || stopwatch() >= last.untilMs) {
      const seen = { endsAt: read(url), untilMs: stopwatch() + rereadMs }
      last = seen
      if (!(await seen.endsAt)) seen.untilMs = stopwatch() + rereadAfterFailureMs
    }
    return await last.endsAt
  }
}

function read(url: URL): Promise<Date | undefined> {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  return new Promise((resolve) => {
    const socket = connect({
      host,
      port: Number(url.port || 443),
      // SNI is for names only.
      ...(isIP(host) === 0 && { servername: host }),
      // No data is sent: the certificate is only read.
      rejectUnauthorized: false,
      timeout: answerWithinMs,
    })
    const end = (endsAt?: Date) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(endsAt)
    }
    const timer = setTimeout(end, answerWithinMs)
    socket.once('error', () => end())
    socket.once('secureConnect', () => {
      const endsAt = new Date(socket.getPeerCertificate().valid_to)
      end(Number.isNaN(endsAt.getTime()) ? undefined : endsAt)
    })
  })
}
