import type { Secret } from '../domain/secret.ts'

const mask = '***'
const marker = '\u0000'

/** An incoming webhook of Slack: its path is a secret, so only the host is shown. */
export function maskedOrigin(url: Secret): string {
  const { origin } = new URL(url.reveal())
  return `${origin}/${mask}`
}

/** An address without its query, and without path parts that the flow file does not show itself. */
export function maskedAddress(url: Secret): string {
  const { origin, pathname, search } = new URL(url.reveal())
  const shown = new Set(url.templateWith(marker).split(/[/?#]/))
  const path = pathname
    .split('/')
    .map((segment) => (segment === '' || shown.has(segment) ? segment : mask))
    .join('/')
  return `${origin}${path}${search && `?${mask}`}`
}
