import { randomUUID } from 'node:crypto'
import type { LightMyRequestResponse } from 'fastify'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { acceptInvitation, consent, login } from '../support/oauth.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, sandboxCall } from '../support/till.ts'

/** A person who connects a shop in a browser gets a page in his language; programs get the documented JSON. */
let service: TestService
beforeAll(async () => {
  service = await startTestService({
    env: { OAUTH_ENROLMENT: 'invite', AUTH_FAILURES_PER_MINUTE: '100000' },
  })
})
afterAll(() => service.stop())

const unique = (name: string) => `${name}-${randomUUID()}`

const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const browser = (language: string) => ({ accept, 'accept-language': language })

async function invitation(client: string): Promise<string> {
  const answer = await asAdmin(service, { url: '/admin/invitations', body: { client } })
  const { pathname, search } = new URL(answer.json().url)
  return `${pathname}${search}`
}

/** The address to which the browser of the invited person returns. */
async function backOf(client: string, answer: Parameters<typeof consent>[1] = {}): Promise<string> {
  const begun = await acceptInvitation(service, await invitation(client))
  return consent(begun.json().url, answer)
}

/** Failures: each returns the address at which the browser sees it. */
const failures: Record<
  string,
  { status: number; code: string; es: string; at(): Promise<string> }
> = {
  'an invitation that was used': {
    status: 409,
    code: 'INVITATION_INVALID',
    es: 'Esta invitación ya no vale',
    async at() {
      const link = await invitation(unique('page-used'))
      await acceptInvitation(service, link)
      return link
    },
  },
  'a first connection without an invitation': {
    status: 403,
    code: 'FORBIDDEN',
    es: 'Hace falta una invitación',
    at: async () => '/oauth/login?client=page-uninvited',
  },
  'a shop that is connected': {
    status: 409,
    code: 'OAUTH_ALREADY_CONNECTED',
    es: 'La cuenta ya está conectada',
    async at() {
      const client = unique('page-connected')
      await call(service, { url: await backOf(client, { account: '7300001' }) })
      return `/oauth/login?client=${client}`
    },
  },
  'a shop whose keys were revoked': {
    status: 403,
    code: 'API_KEY_REQUIRED',
    es: 'Este comercio no puede conectarse',
    async at() {
      const client = unique('page-revoked')
      await call(service, { url: await backOf(client, { account: '7300002' }) })
      for (const url of ['/api-keys', '/api-keys/revoke']) {
        await asAdmin(service, { url, body: { client } })
      }
      await asAdmin(service, { method: 'POST', url: `/oauth/logout?client=${client}` })
      return `/oauth/login?client=${client}`
    },
  },
  'a link that was cut': {
    status: 422,
    code: 'VALIDATION_ERROR',
    es: 'Este enlace no está completo',
    at: async () => '/oauth/login',
  },
  'an owner who refused': {
    status: 400,
    code: 'OAUTH_DENIED',
    es: 'No se autorizó la conexión',
    at: () => backOf(unique('page-denied'), { consent: 'deny' }),
  },
  'a state that is not known': {
    status: 400,
    code: 'OAUTH_STATE_INVALID',
    es: 'Este intento de conexión ya no vale',
    at: async () => '/oauth/callback?code=c&state=s',
  },
  'a state that expired': {
    status: 400,
    code: 'OAUTH_STATE_INVALID',
    es: 'Este intento de conexión ya no vale',
    async at() {
      const back = await backOf(unique('page-late'))
      service.clock.advance(11 * 60_000)
      return back
    },
  },
  'another account than before': {
    status: 409,
    code: 'ACCOUNT_MISMATCH',
    es: 'Se eligió otra cuenta',
    async at() {
      const client = unique('page-pinned')
      await call(service, { url: await backOf(client, { account: '7300003' }) })
      await asAdmin(service, { method: 'POST', url: `/oauth/logout?client=${client}` })
      return backOf(client, { account: '7300004' })
    },
  },
  'a provider that fails': {
    status: 502,
    code: 'PROVIDER_ERROR',
    es: 'La cuenta no quedó conectada',
    async at() {
      const back = await backOf(unique('page-unlucky'))
      const faults = [{ path: '/oauth/token', kind: '500', count: 1 }]
      await sandboxCall(service, 'PUT', '/_sandbox/faults', faults)
      return back
    },
  },
}

function expectPage(answer: LightMyRequestResponse, language: string, title: string): void {
  expect(answer.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-store',
    'content-security-policy': expect.stringContaining("default-src 'none'"),
  })
  expect(answer.body).toContain(`<html lang="${language}">`)
  expect(answer.body).toContain(`<h1>${title}</h1>`)
  expect(answer.body).not.toMatch(/<script|<style|style=|undefined/)
}

test.each(Object.entries(failures))(
  '%s: a browser gets a page, a program gets JSON',
  async (_, way) => {
    const shown = await call(service, { url: await way.at(), headers: browser('es-AR,es;q=0.9') })
    expect(shown.statusCode).toBe(way.status)
    expectPage(shown, 'es', way.es)
    // The request id to quote when asking for help, and not the code of the error.
    expect(shown.body).toContain(`<code>${shown.headers['x-request-id']}</code>`)
    expect(shown.body).not.toContain(way.code)

    const json = await call(service, { url: await way.at(), headers: { accept: '*/*' } })
    expect([json.statusCode, json.json().code]).toEqual([way.status, way.code])
  },
)

test.each([
  ['en-GB,en;q=0.9', 'en', 'This attempt to connect is over'],
  ['pt-BR', 'pt', 'Esta tentativa de conexão já não vale'],
  ['de, fr;q=0.5', 'es', 'Este intento de conexión ya no vale'],
  ['en;q=0.1, es;q=0.9', 'es', 'Este intento de conexión ya no vale'],
])('a browser that accepts %s gets the page in %s', async (wanted, language, title) => {
  const url = '/oauth/callback?code=c&state=s'
  expectPage(await call(service, { url, headers: browser(wanted) }), language, title)
})

test.each([
  ['es-AR', 'es', 'Conectar la cuenta de Mercado Pago', 'Seguí en Mercado Pago'],
  ['en', 'en', 'Connect the Mercado Pago account', 'Continue at Mercado Pago'],
  ['pt-BR', 'pt', 'Conectar a conta do Mercado Pago', 'Continue no Mercado Pago'],
])(
  'an invitation opened in %s is a page with a button that begins the login',
  async (wanted, language, title, next) => {
    const client = unique('Almacén «Ñandú» & <b>hijos</b>')
    const link = await invitation(client)
    const page = await call(service, { url: link, headers: browser(wanted) })
    expect(page.statusCode).toBe(200)
    expectPage(page, language, title)
    expect(page.body).toContain('<bdi>Almacén «Ñandú» &#38; &#60;b&#62;hijos&#60;/b&#62;-')
    // Over plain http the browser sends the origin of the form only under this policy.
    expect(page.headers['referrer-policy']).toBe('same-origin')
    const fields = [...page.body.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)]
    const form = Object.fromEntries(
      fields.map(([, name = '', value = '']) => [name, unescaped(value)]),
    )
    expect(page.body).toContain('<form method="post" action="invitation">')
    expect(form).toEqual(Object.fromEntries(new URL(link, 'http://x').searchParams))

    const begun = await acceptInvitation(service, link, browser(wanted))
    expect(begun.statusCode).toBe(200)
    expectPage(begun, language, next)
    const [, target = ''] = /<a class="button main" href="([^"]+)">/.exec(begun.body) ?? []
    expect(begun.body).toContain(`<meta http-equiv="refresh" content="0; url=${target}">`)
    const back = await consent(unescaped(target), { account: '7300006' })
    expect((await call(service, { url: back })).statusCode).toBe(200)
  },
)

const unescaped = (html: string) =>
  html.replace(/&#(\d+);/g, (_, code) => String.fromCodePoint(Number(code)))

test('the page of a new connection is in the language of the browser and names the shop', async () => {
  const client = unique('Almacén «Ñandú» & <b>hijos</b>')
  const answer = await call(service, {
    url: await backOf(client, { account: '7300005' }),
    headers: browser('en'),
  })
  expect(answer.statusCode).toBe(200)
  expectPage(answer, 'en', 'The account is connected')
  expect(answer.body).toContain('<bdi>Almacén «Ñandú» &#38; &#60;b&#62;hijos&#60;/b&#62;-')
})

test('the files that such a page links exist', async () => {
  const { body } = await call(service, { url: '/oauth/login', headers: browser('es') })
  const parts = [...body.matchAll(/(?:href|src)="([^"]+)"/g)].map((match) => String(match[1]))
  expect(parts).toHaveLength(4)
  for (const url of parts) expect((await call(service, { url })).statusCode).toBe(200)
})

test('a browser that tries too often gets a page and a Retry-After', {
  tags: ['long'],
}, async () => {
  const strict = await startTestService({ env: { AUTH_FAILURES_PER_MINUTE: '1' } })
  try {
    await login(strict, 'page-eager')
    const answer = await login(strict, 'page-eager', {}, { headers: browser('es') })
    expect(answer.statusCode).toBe(429)
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
    expectPage(answer, 'es', 'Demasiados intentos')
  } finally {
    await strict.stop()
  }
})

test('other routes answer a browser in JSON', async () => {
  const answer = await call(service, { url: '/orders', headers: browser('es') })
  expect([answer.statusCode, answer.json().code]).toEqual([401, 'UNAUTHORIZED'])
})
