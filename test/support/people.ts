import type { LightMyRequestResponse } from 'fastify'
import { TOTP } from 'otpauth'
import type { Role } from '../../src/domain/permissions.ts'
import type { TestService } from './service.ts'
import { asAdmin, type Call, call } from './till.ts'

export const ownPage = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
export const goodPassword = 'canary-long enough to be one'

/** `device`: the cookie by which the person's browser is known. */
export type TestPerson = { id: string; name: string; cookie: string; device: string }

export function cookieOf(answer: LightMyRequestResponse): string {
  return cookiesOf(answer)[0] ?? ''
}

/** The cookies that an answer sets, as a browser sends them. */
export function cookiesOf(answer: LightMyRequestResponse): string[] {
  return [answer.headers['set-cookie'] ?? []].flat().map((set) => set.split(';', 1)[0] ?? '')
}

/** The code in the fragment of an invitation's link. */
export function codeOf(answer: LightMyRequestResponse): string {
  return String(answer.json().invitation.link).split(/#\/invitation\/|\?name=/)[1] ?? ''
}

/** Somebody who was invited by the administrator, has set a password and is signed in. */
export async function join(
  service: TestService,
  person: { name: string; role: Role; client?: string | null; stores?: string[] | null },
): Promise<TestPerson> {
  const invited = await asAdmin(service, { url: '/people', body: person })
  if (invited.statusCode !== 201) throw new Error(`not invited: ${invited.body}`)
  const begun = await call(service, {
    url: '/account/invitation',
    headers: ownPage,
    body: { code: codeOf(invited), password: goodPassword },
  })
  if (begun.statusCode !== 200) throw new Error(`no session: ${begun.body}`)
  const [cookie = '', device = ''] = cookiesOf(begun)
  return { id: invited.json().person.id, name: person.name, cookie, device }
}

/** A sign-in with name and password. */
export function signInAs(
  service: TestService,
  credentials: { name: string; password?: string; code?: string },
  headers: Record<string, string> = {},
): Promise<LightMyRequestResponse> {
  return call(service, {
    url: '/session',
    headers: { ...ownPage, ...headers },
    body: { password: goodPassword, ...credentials },
  })
}

/** A request of a page by this session. */
export function by(
  service: TestService,
  { cookie }: Pick<TestPerson, 'cookie'>,
  request: Call,
): Promise<LightMyRequestResponse> {
  return call(service, { ...request, headers: { cookie, ...ownPage, ...request.headers } })
}

/** The code of an authenticator app at a moment. */
export function codeAt(secret: string, at: Date): string {
  return new TOTP({ secret }).generate({ timestamp: at.getTime() })
}
