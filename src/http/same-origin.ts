import type { IncomingHttpHeaders } from 'node:http'

/**
 * Whether a page of this very service may be believed to have made a request that carries a cookie. SameSite alone does
 * not tell: another port of the same host is the same site, and cookies do not know ports.
 *
 * Browsers say it in Sec-Fetch-Site; over plain http in a shop's network they do not, but name the Origin of every
 * request that may change something. `isRead` lets pass what names neither, since its answer is closed to other pages.
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
