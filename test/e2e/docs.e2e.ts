import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { jsonFlow, startTestFlows } from '../support/flows.ts'
import { deliver } from '../support/money.ts'
import { adminToken, startTestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  openShop,
  payByCard,
  readOrder,
  sandboxCall,
} from '../support/till.ts'
import { button, expectText, openPage, type WatchedPage } from './browser.ts'

/** The description of each listener can be read and tried in a browser, under the policy of every page. */
let opened: WatchedPage | undefined
afterEach(async () => {
  await opened?.close()
  opened = undefined
})

type Get = {
  operationId: string
  tags: string[]
  parameters?: { name: string; in: string; required?: boolean; schema?: { enum?: string[] } }[]
}
type Document = { paths: Record<string, Record<string, Get>> }
/** What a person writes into the fields, and the status that each operation then answers if it is not 200. */
type Script = { values: Record<string, string>; statuses: Record<string, number> }

async function authorize(page: Page, token: string): Promise<void> {
  await button(page, 'Authorize').first().click()
  const form = page.locator('.auth-container').filter({ hasText: 'adminToken' })
  await form.locator('input').fill(token)
  await form.locator('button.authorize').click()
  await page.locator('button.btn-done').first().click()
  await page.evaluate((given) => sessionStorage.setItem('test-token', given), token)
}

/** GETs with the same kinds of fields are drawn by the same parts of the page. */
const fieldsOf = ({ parameters = [] }: Get): string =>
  [...new Set(parameters.map(({ in: place, schema }) => (schema?.enum ? 'choice' : place)))]
    .sort()
    .join()

/**
 * Executes each GET with its token: the fields that a person fills are in `values`, all others stay as they are. Clicks take seconds,
 * so they execute the first one with each kind of fields; the page sends the others in the same form.
 */
async function executeAll(
  page: Page,
  document: Document,
  { values, statuses }: Script,
): Promise<Record<string, number>> {
  const gets = Object.entries(document.paths).flatMap(([path, { get }]) =>
    get ? [{ path, get }] : [],
  )
  const answers: Record<string, number> = {}
  const clicked = new Set<string>()
  for (const { path, get } of gets) {
    const fields = fieldsOf(get)
    answers[get.operationId] = clicked.has(fields)
      ? await send(page, path, get, values)
      : await executeByClicks(page, path, get, values)
    clicked.add(fields)
  }
  expect(clicked.size).toBeGreaterThan(3)
  expect(gets.length).toBeGreaterThan(10)
  const expected = Object.fromEntries(
    Object.keys(answers).map((operation) => [operation, statuses[operation] ?? 200]),
  )
  expect(answers).toEqual(expected)
  return answers
}

/** The request that the page would send, from the page: its policy and its cookies hold. Answers the status. */
async function send(page: Page, path: string, get: Get, values: Record<string, string>) {
  const query = new URLSearchParams()
  let address = path
  for (const { name, in: place, required = false } of get.parameters ?? []) {
    const value = values[`${get.operationId}.${name}`] ?? (required ? values[name] : undefined)
    if (value === undefined) {
      if (required && place !== 'header') throw new Error(`say what ${name} of ${path} is`)
    } else if (place === 'path') address = address.replace(`{${name}}`, encodeURIComponent(value))
    else if (place === 'query') query.set(name, value)
  }
  const token = await page.evaluate(() => sessionStorage.getItem('test-token') ?? '')
  return await page.evaluate(
    async ([url, key]) => {
      const answer = await fetch(String(url), { headers: { 'x-api-token': String(key) } })
      await answer.text()
      return answer.status
    },
    [query.size === 0 ? address : `${address}?${query}`, token],
  )
}

/** Opens the group of a GET and the GET, finds its fields empty, fills them as a person would, executes it and reads its status. */
async function executeByClicks(
  page: Page,
  path: string,
  get: Get,
  values: Record<string, string>,
): Promise<number> {
  const group = page.locator(`.opblock-tag[data-tag="${get.tags[0]}"]`)
  await group.click()
  const block = page.locator(
    `[id="operations-${get.tags[0]?.replaceAll(' ', '_')}-${get.operationId}"]`,
  )
  await block.locator('.opblock-summary-control').click()
  await button(block, 'Try it out').click()
  const rows = block.locator('.parameters tr[data-param-name]')
  for (const row of await rows.all()) {
    const name = String(await row.getAttribute('data-param-name'))
    const field = row.locator('input[type="text"], select').first()
    const isRequired = (await row.locator('.required').count()) > 0
    const isChoice = (await field.evaluate((node) => node.nodeName)) === 'SELECT'
    // A choice that must be made shows its first value.
    if (!(isChoice && isRequired)) expect(await field.inputValue(), `${path} ${name}`).toBe('')
    const value = values[`${get.operationId}.${name}`] ?? (isRequired ? values[name] : undefined)
    if (value === undefined) {
      if (isRequired) throw new Error(`say what ${name} of ${path} is`)
      continue
    }
    if (isChoice) await field.selectOption(value)
    else await field.fill(value)
  }
  await button(block, 'Execute').click()
  const status = block.locator('.live-responses-table tbody .response-col_status')
  await expectText(status, /^\d{3}/)
  const answered = Number((await status.innerText()).slice(0, 3))
  await group.click()
  return answered
}

async function open(address: string, name: string): Promise<WatchedPage> {
  opened = await openPage(`${address}/docs`)
  // Drawing so many operations takes seconds of a processor, on a busy machine many.
  await opened.page.locator('.info .title').waitFor({ timeout: 120_000 })
  await expectText(opened.page.locator('.info .title'), `tillbridge ${name}`)
  return opened
}

function expectHome({ requested }: WatchedPage, address: string): void {
  const foreign = requested.filter((url) => !url.startsWith(address) && !url.startsWith('data:'))
  expect(foreign).toEqual([])
}

test('every GET of the payment API is executed from its page with a token', async () => {
  const service = await startTestService()
  try {
    const shop = await openShop(service, 'Kiosco Ñandú', '201')
    const orderId = (await charge(service, shop, { reference: 'T-1' })).json().order_id
    await act(service, orderId, payByCard)
    await readOrder(service, shop, orderId)
    // A day that is over in every time zone.
    const day = new Date(service.clock.now().getTime() - 48 * 3_600_000).toISOString().slice(0, 10)
    const closing = await call(service, {
      url: '/closings',
      token: shop.key,
      body: { caja_id: 'CAJA-1', business_day: day },
    })
    expect(closing.statusCode, closing.body).toBe(202)
    const fetched = await call(service, {
      url: '/settlements/fetches',
      token: shop.key,
      body: { report: 'settlement', from: day, to: day },
    })
    expect(fetched.statusCode, fetched.body).toBe(202)
    const { mp_order_id } = (await readOrder(service, shop, orderId)).json()
    const { id: caseId } = (await sandboxCall(service, 'POST', '/_sandbox/chargebacks', {
      order_id: mp_order_id,
      webhooks: 'none',
    })) as { id: string }
    const type = 'topic_chargebacks_wh'
    const body = { type, data: { id: Number(caseId) }, user_id: shop.mpUserId }
    await deliver(service, { dataId: caseId, type, body })
    const cases = (await call(service, { url: '/chargebacks', token: shop.key })).json()
    const made = await asAdmin(service, { url: '/admin/invitations', body: { client: 'nueva' } })
    const invitation = new URL(made.json().url).searchParams.get('invitation') as string
    const invited = await asAdmin(service, {
      url: '/people',
      body: { name: 'Ana', role: 'viewer', client: shop.client },
    })
    expect(invited.statusCode, invited.body).toBe(201)
    const endpoint = await call(service, {
      url: '/events/endpoints',
      token: shop.key,
      body: { url: 'https://erp.example/events' },
    })
    expect(endpoint.statusCode, endpoint.body).toBe(201)
    const address = await service.app.listen({ host: '127.0.0.1', port: 0 })
    const watched = await open(address, 'payment API')
    await authorize(watched.page, adminToken)
    const document = (await service.app.inject('/openapi.json')).json() as Document
    const forClient = Object.values(document.paths).flatMap(({ get }) =>
      get ? [[`${get.operationId}.client`, shop.client]] : [],
    )
    const answers = await executeAll(watched.page, document, {
      values: {
        ...Object.fromEntries(forClient),
        'showInvitation.client': 'nueva',
        'startLogin.client': 'otra',
        'startLogin.redirect': 'false',
        'followEvents.max_seconds': '1',
        clientName: shop.client,
        orderId,
        storeExternalId: 'SUC-1',
        closingId: closing.json().id,
        personId: invited.json().person.id,
        fetchId: fetched.json().id,
        chargebackId: cases.chargebacks[0].id,
        id: endpoint.json().id,
        event_id: `evt_${'0'.repeat(32)}`,
        from: new Date(service.clock.now().getTime() - 3_600_000).toISOString(),
        invitation,
      },
      // A login that was not begun cannot be finished, the administrator has no account, and no event was sent.
      statuses: { finishLogin: 400, readAccount: 403, readSentEvent: 404 },
    })
    expect(Object.keys(answers)).toEqual(expect.arrayContaining(['readOrder', 'followEvents']))
    expectHome(watched, address)
    // The browser tells of each error status that it is answered with.
    watched.expectQuiet(/status of 40[034]/)
  } finally {
    await service.stop()
  }
}, 1_800_000)

test('every GET of the flow control API is executed from its page with a token', async () => {
  const token = 'sync-token-for-tests-0123456789abcdef'
  const flows = await startTestFlows({
    env: { SYNC_TOKEN: token },
    files: {
      'articulos.flow.yaml': jsonFlow('articulos', 'http://127.0.0.1:9'),
      'articulos.json': [{ id: 'A-1' }],
    },
  })
  try {
    const address = await flows.app.listen({ host: '127.0.0.1', port: 0 })
    const watched = await open(address, 'flow control API')
    await authorize(watched.page, token)
    const document = (await flows.call('GET', '/openapi.json')).json() as Document
    const file = '/flow-files/articulos.flow.yaml'
    const headers = { 'x-api-token': token }
    const { text, hash } = (await flows.call('GET', file, { headers })).json()
    await flows.call('PUT', file, { headers, body: { text: `${text}\n`, base: hash } })
    const { versions } = (await flows.call('GET', file, { headers })).json()
    await executeAll(watched.page, document, {
      values: {
        name: 'articulos',
        file: 'articulos.flow.yaml',
        version: versions[0].version,
        template: 'woocommerce',
        'readDestination.name': 'web',
        pk: 'A-1',
        'followFlows.max_seconds': '1',
      },
      statuses: {},
    })
    expectHome(watched, address)
    watched.expectQuiet()
  } finally {
    await flows.stop()
  }
}, 1_800_000)
