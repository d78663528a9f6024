import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { freePort } from '../process/real-process.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin } from '../support/till.ts'
import {
  button,
  expectText,
  openPage,
  seriousBarriers,
  tooWideAt,
  type WatchedPage,
} from './browser.ts'

/** The owner of a shop connects it from an invitation link; whatever happens, a page in the own language says what to do. */
let service: TestService
let opened: WatchedPage | undefined

beforeAll(async () => {
  const port = await freePort()
  service = await startTestService({
    publicUrl: `http://127.0.0.1:${port}`,
    env: { OAUTH_ENROLMENT: 'invite' },
  })
  await service.app.listen({ host: '127.0.0.1', port })
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await service?.stop()
})

const looks = [
  {
    locale: 'es-AR',
    colorScheme: 'light',
    invited: 'Conectar la cuenta de Mercado Pago',
    go: 'Seguir en Mercado Pago',
    denied: 'No se autorizó la conexión',
    used: 'Esta invitación ya no vale',
    connected: 'La cuenta quedó conectada',
    again: 'Este intento de conexión ya no vale',
  },
  {
    locale: 'en-GB',
    colorScheme: 'dark',
    invited: 'Connect the Mercado Pago account',
    go: 'Continue at Mercado Pago',
    denied: 'The connection was not authorised',
    used: 'This invitation is no longer valid',
    connected: 'The account is connected',
    again: 'This attempt to connect is over',
  },
  {
    locale: 'pt-BR',
    colorScheme: 'light',
    invited: 'Conectar a conta do Mercado Pago',
    go: 'Continuar no Mercado Pago',
    denied: 'A conexão não foi autorizada',
    used: 'Este convite já não vale',
    connected: 'A conta foi conectada',
    again: 'Esta tentativa de conexão já não vale',
  },
] as const

test.each(looks)('in $locale, $colorScheme', async ({ locale, colorScheme, ...texts }) => {
  const client = `tienda ${locale}`
  const invite = async () =>
    (await asAdmin(service, { url: '/admin/invitations', body: { client } })).json().url as string
  const link = await invite()
  opened = await openPage(link, { locale, colorScheme })
  const { page, requested } = opened
  const reads = async (title: string) => {
    await expectText(page.locator('h1'), title)
    expect(await page.title()).toBe(`${title} · tillbridge`)
    expect(await page.locator('html').getAttribute('lang')).toBe(locale.slice(0, 2))
    expect(await seriousBarriers(page)).toEqual([])
    expect(await tooWideAt(page)).toEqual([])
  }

  await reads(texts.invited)
  await expectText(page.locator('bdi'), client)
  // Looking again, as the previews of messengers do, leaves it as it is.
  await page.reload()
  await button(page, texts.go).click()
  await button(page, 'Rechazar').click()
  await reads(texts.denied)
  await page.goto(link)
  await reads(texts.used)

  await page.goto(await invite())
  await button(page, texts.go).click()
  await button(page, 'Autorizar').click()
  await reads(texts.connected)
  await expectText(page.locator('bdi'), client)
  await page.reload()
  await reads(texts.again)

  expect(requested.filter((url) => url.endsWith('/favicon.ico'))).toEqual([])
  // The statuses of the refusals themselves; whatever else it says is a complaint.
  opened.expectQuiet(/^Failed to load resource: the server responded with a status of 4\d\d/)
})
