import type { IncomingHttpHeaders } from 'node:http'

/**
 * Whether a request with a cookie comes from a page of this service. SameSite alone is not enough: another port of the
 * same host is the same site, and cookies ignore ports.
 *
 * Browsers send it in Sec-Fetch-Site. Over plain http in a shop's network they do not, but they send the Origin with
 * requests that may change something. `isRead` accepts requests without either, since other pages cannot read the
 * answer.
 */
export function isFromOwnPage(
  headers: IncomingHttpHeaders,
  { ownOrigin, isRead }: { ownOrigin: string; isRead: boolean },
): boolean {
  const { host, origin, 'sec-fetch-site': site } = headers
  if (site !== undefined) return site === 'same-origin' || (isRead && site === 'none')
  if (origin === undefined) return isRead
  if (origin === ownOrigin) return true
  return URL.canParse(origin) && new URL(origin).host.toLowerCase() === host?.toLowerCase()
}
