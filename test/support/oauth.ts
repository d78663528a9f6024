import type { LightMyRequestResponse } from 'fastify'
import type { TestService } from './service.ts'
import { type Call, call } from './till.ts'

/** Begins a login; `query` is added to the client's name. */
export async function login(
  service: TestService,
  client: string,
  query: Record<string, string> = {},
  more: Partial<Call> = {},
): Promise<LightMyRequestResponse> {
  const search = new URLSearchParams({ client, ...query })
  return call(service, { url: `/oauth/login?${search}`, ...more })
}

/** What a browser that got this answer sends back: the cookie that binds the login to it, over https. */
export function cookieOf(answer: LightMyRequestResponse): string {
  return String(answer.headers['set-cookie'] ?? '').split(';')[0] ?? ''
}

/** The button on the page of an invitation link, pressed in a browser or by a program that plays one. */
export async function acceptInvitation(
  service: TestService,
  link: string,
  headers: Record<string, string> = {},
): Promise<LightMyRequestResponse> {
  const form = new URL(link, 'http://x').searchParams
  return service.app.inject({
    method: 'POST',
    url: '/oauth/invitation',
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      'sec-fetch-site': 'same-origin',
      ...headers,
    },
    payload: form.toString(),
  })
}

/** The seller answers at the provider's consent page; gives the path and query with which the browser comes back. */
export async function consent(
  location: unknown,
  answer: { account?: string; consent?: 'approve' | 'deny' } = {},
): Promise<string> {
  const response = await fetch(String(location), {
    redirect: 'manual',
    headers: {
      'x-sandbox-consent': answer.consent ?? 'approve',
      ...(answer.account !== undefined && { 'x-sandbox-user': answer.account }),
    },
  })
  const back = response.headers.get('location')
  if (back === null) throw new Error(`no consent: ${response.status} ${await response.text()}`)
  const { pathname, search } = new URL(back)
  return `${pathname}${search}`
}

/** Login and consent in one: the return address, not yet visited. */
export async function returnOf(
  service: TestService,
  client: string,
  account: string,
  query: Record<string, string> = {},
): Promise<string> {
  const begun = await login(service, client, query)
  if (begun.statusCode !== 302) throw new Error(`no login: ${begun.statusCode} ${begun.body}`)
  return consent(begun.headers.location, { account })
}
