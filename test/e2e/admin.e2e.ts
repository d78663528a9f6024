import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { grantIdOf } from '../../src/flows/oauth/lost-access.ts'
import {
  jsonFlow,
  patientFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import {
  button,
  expectText,
  openPage,
  seriousBarriers,
  sidewaysOverflow,
  tooWideAt,
  type WatchedPage,
} from './browser.ts'

const hostileKey = '<img src=x onerror=alert(1)>\u202Eabc'
const hostileReason = '<script>alert(1)</script>\u202Egnirts '.padEnd(500, 'x')

/** The flows whose items the target does not take. */
const refused = new Set(['failing', 'hostile', 'steady-a', 'steady-b'])
/** Those that it cannot serve for now. */
const unwell = new Set(['late', 'resting'])

let target: TestTarget
let flows: TestFlows
let url: string
let opened: WatchedPage | undefined

/** Each test has a flow of its own, so none depends on another. */
const names = [
  'pausing',
  'limited',
  'syncing',
  'failing',
  'resetting',
  'alerting',
  'hostile',
  'calm',
  'noticed',
  'explained',
  'spoken',
  'late',
  'compared',
  'steady-a',
  'steady-b',
  'resting',
  'told',
  'lacking',
  'asking',
  'emptied',
  'lost',
  'a-keyboard',
]

beforeAll(async () => {
  target = await startTarget()
  target.answer(({ path }) =>
    unwell.has(flowOfPath(path)) ? 503 : refused.has(flowOfPath(path)) ? 422 : 200,
  )
  const files = Object.fromEntries(
    names.flatMap((name) => {
      const flowOf = unwell.has(name) ? patientFlow : jsonFlow
      return [
        [
          `${name}.flow.yaml`,
          shaped(name, flowOf(name, target.url, { startPaused: false, ...extraOf(name) })),
        ],
        [`${name}.json`, itemsOf(name)],
      ]
    }),
  )
  flows = await startTestFlows({
    env: { APP_SECRET: 'canary-secret', FIRST_TOKEN: 'canary-first' },
    files: { ...files, 'broken.flow.yaml': 'version: 1\nname: broken\npolInterval: 1m\n' },
  })
  url = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

const flowOfPath = (path: string) => path.split('/')[1] ?? ''

/** Some have a destination of their own kind. */
function shaped(name: string, flow: Record<string, unknown>): Record<string, unknown> {
  const extra =
    name === 'resting'
      ? {
          breaker: { failures: 2, within: '1m', openFor: '10m' },
          concurrency: 1,
          retry: { attempts: 50, initial: '1s', max: '1s', jitter: 0 },
        }
      : name === 'told'
        ? { filter: '$not($exists(hidden))', delete: { url: `${target.url}/told/{pk}` } }
        : name === 'emptied'
          ? { delete: { url: `${target.url}/emptied/{pk}` } }
          : name === 'lacking'
            ? { map: '{ "id": id, "price": price, "name": name }' }
            : name === 'lost'
              ? { auth: lostAccess() }
              : {}
  const { destinations } = flow as { destinations: object[] }
  return { ...flow, destinations: destinations.map((one) => ({ ...one, ...extra })) }
}

function extraOf(name: string): Record<string, unknown> {
  if (name === 'hostile') return { description: '<b>bold</b>\u202E '.repeat(70) }
  // One scan more than there is has to miss an item.
  if (name === 'told') {
    return { deletes: { mode: 'delete', guard: { minItems: 0, maxPercent: 1 } } }
  }
  if (name === 'emptied') return { deletes: { mode: 'delete' } }
  if (name !== 'alerting' && name !== 'spoken') return {}
  return {
    alerts: {
      onJobFailed: [
        { type: 'webhook', url: `${target.url}/hook` },
        // Nothing listens there.
        { type: 'webhook', url: 'http://127.0.0.1:1/hook' },
      ],
    },
  }
}

const lostAccess = () => ({
  type: 'oauth2' as const,
  grant: 'refresh_token' as const,
  tokenUrl: `${target.url}/token`,
  clientId: 'app',
  clientSecret: `\${env:APP_SECRET}`,
  refreshToken: `\${env:FIRST_TOKEN}`,
  clientAuth: 'basic' as const,
})

/** By how much a text is higher than what is shown of it. */
const cutOff = (text: Locator) => text.evaluate((one) => one.scrollHeight - one.clientHeight)

function itemsOf(name: string): object[] {
  if (name === 'lost') return []
  return name === 'hostile' ? [{ id: hostileKey }] : [{ id: 'A-1' }, { id: 'A-2' }]
}

async function open(view = '', options = {}): Promise<Page> {
  opened = await openPage(`${url}#/${view}`, options)
  return opened.page
}

function card(page: Page, name: string): Locator {
  return page.locator('article.flow', { has: page.locator(`#flow-${name}`) })
}

const sent = (name: string) => target.received.filter(({ path }) => path.startsWith(`/${name}/`))

/** `flows.delivered` would wait for the destinations of other flows too, some of which are down. */
const allArrived = (name: string) =>
  expect
    .poll(async () => (await flows.call('GET', `/flow/${name}/waiting`)).json().waiting.length, {
      timeout: 20_000,
    })
    .toBe(0)

test('a pause is shown with who and why, after a reload too, until the flow is resumed', async () => {
  const page = await open('flows?flow=pausing')
  const flow = card(page, 'pausing')
  await expectText(flow, 'Running')
  await button(flow, 'Pause').click()
  await page.getByLabel('Reason').fill('stocktaking until noon')
  await page.keyboard.press('Enter')
  await expectText(flow, 'stocktaking until noon')
  await expectText(flow, 'Paused by 127.0.0.1')
  await page.reload()
  await expectText(flow, 'stocktaking until noon')
  await button(flow, 'Resume').click()
  await expectText(flow, 'Running')

  await page.getByRole('link', { name: 'Activity' }).first().click()
  const log = page.getByRole('table', { name: 'Activity' })
  await expectText(log, 'stocktaking until noon')
  await expectText(log, 'Resumed')
  opened?.expectQuiet()
})

test('a limit counts on the card and ends in a pause', async () => {
  // The first poll, which comes by itself, would count.
  const runs = async () => (await flows.call('GET', '/flow/limited/runs')).json().runs.length
  await expect.poll(runs, { timeout: 20_000 }).toBeGreaterThan(0)
  const page = await open('flows?flow=limited')
  const flow = card(page, 'limited')
  await button(flow, 'Limit').click()
  await page.getByLabel('Runs until').fill('0')
  await page.keyboard.press('Enter')
  await expectText(page.locator('dialog [role=alert]'), '1 to 1000000')
  await page.getByLabel('Runs until').fill('2')
  await page.keyboard.press('Enter')
  await expectText(flow, '0/2')
  await button(flow, 'Sync').click()
  await expectText(flow, '1/2')
  await button(flow, 'Sync').click()
  await expectText(flow, '2/2')
  await expectText(flow, 'Paused by the service')
  await button(flow, 'Remove limit').click()
  await expectText(flow, 'still paused')
  opened?.expectQuiet()
})

test('sync tells how much changed, and asks before it runs a paused flow', async () => {
  await expect.poll(() => sent('syncing').length, { timeout: 20_000 }).toBe(2)
  const page = await open('flows?flow=syncing')
  const flow = card(page, 'syncing')
  await flows.write('syncing.json', [{ id: 'A-1', price: 2 }, { id: 'A-2' }, { id: 'A-3' }])
  await button(flow, 'Sync').click()
  await expectText(flow, 'Synced: 2 changes')
  await expect.poll(() => sent('syncing').length, { timeout: 20_000 }).toBe(4)
  await flows.flows.pause('syncing', 'colleague', 'price list is wrong')
  await expectText(flow, 'price list is wrong')
  await flows.write('syncing.json', [{ id: 'A-1', price: 3 }])
  await button(flow, 'Sync').click()
  await expectText(page.getByRole('dialog'), 'price list is wrong')
  await button(page, 'Back').click()
  expect(sent('syncing')).toHaveLength(4)
  await button(flow, 'Sync').click()
  await button(page, 'Run once').click()
  await expectText(flow, 'Synced: 1 change')
  await expectText(flow, 'Paused')
  opened?.expectQuiet()
})

test('failures stand together by code; a group is sent again, and one item by itself', async () => {
  await expect.poll(() => sent('failing').length, { timeout: 20_000 }).toBe(2)
  const page = await open('errors?flow=failing')
  const group = page.locator('article', { hasText: '422' })
  await expectText(group, '2 items')
  await group.getByText('Which items').click()
  await button(group, 'Send again').first().click()
  await expect.poll(() => sent('failing').length, { timeout: 20_000 }).toBe(3)
  // Until the answer is stored the item counts as being sent, and a group is sent without it.
  const failed = async () => (await flows.flows.failures('failing', 10))[0]?.items
  await expect.poll(failed, { timeout: 20_000 }).toBe(2)
  await expectText(group, '2 items')
  refused.delete('failing')
  await button(group, 'Send all 2 again').click()
  await expect.poll(() => sent('failing').length, { timeout: 20_000 }).toBe(5)
  await expectText(group, 'On its way again')
  await page.mouse.move(0, 0)
  await expectText(page.locator('main'), 'No failed deliveries')

  await page.goto(`${url}#/item`)
  await page.getByLabel('Item key').fill('A-1')
  await page.getByRole('table', { name: 'Flows that know' }).getByText('failing').click()
  await expectText(page.getByRole('table', { name: 'Where it is' }), /delivered[\s\S]*yes/)
  await expectText(page.getByRole('table', { name: 'Errors of this item' }), '422')
  await button(page, 'Sync this item').click()
  await expectText(page.locator('main'), 'Unchanged')
  opened?.expectQuiet()
})

test('after a group was sent again, no other group slides under the pointer', async () => {
  const isRefused = (name: string) => flows.flows.failures(name, 10)
  await expect
    .poll(async () => (await isRefused('steady-a')).length + (await isRefused('steady-b')).length, {
      timeout: 20_000,
    })
    .toBe(2)
  const page = await open('errors')
  const groups = page.locator('.groups article')
  const group = (name: string) => page.locator('.groups article', { hasText: name })
  await expectText(group('steady-b'), '2 items')
  const order = async () => (await groups.locator('h3').allInnerTexts()).map((one) => one.trim())
  const before = await order()
  refused.delete('steady-a')
  await button(group('steady-a'), /Send all/).click()
  await expectText(group('steady-a'), 'On its way again')
  expect(await order()).toEqual(before)
  expect(await button(group('steady-a'), /Send all/).isDisabled()).toBe(true)
  await page.mouse.move(0, 0)
  await expect.poll(() => group('steady-a').count(), { timeout: 20_000 }).toBe(0)
  expect(await group('steady-b').count()).toBe(1)
  opened?.expectQuiet()
})

test('an item is looked for while its key is typed, and the way back leads past the letters', async () => {
  const page = await open('activity')
  await page.getByRole('link', { name: 'Find item' }).first().click()
  await page.getByLabel('Item key').pressSequentially('A-1', { delay: 20 })
  await expectText(page.getByRole('table', { name: 'Flows that know' }), 'calm')
  expect(page.url()).toContain('pk=A-1')
  expect(await page.getByLabel('Item key').inputValue()).toBe('A-1')
  await page.getByLabel('Item key').press('Backspace')
  await expectText(page.locator('main'), 'No flow knows this item')
  await page.goBack()
  await expectText(page.locator('h1'), 'Activity')
  opened?.expectQuiet()
})

test('why an item did not arrive: what changed, who answered what, and that it has arrived since', async () => {
  await expect.poll(() => sent('explained').length, { timeout: 20_000 }).toBe(2)
  refused.add('explained')
  await flows.write('explained.json', [{ id: 'A-1', price: -1 }, { id: 'A-2' }])
  await flows.flows.sync('explained', { force: false })
  await expect.poll(() => sent('explained').length, { timeout: 20_000 }).toBe(3)

  const page = await open('errors?flow=explained')
  await page.getByText('Which items').click()
  await page.getByRole('article').getByRole('link', { name: 'A-1' }).click()
  const main = page.locator('main')
  await expectText(main, /web did not get the last change; it still has what arrived/)
  const versions = page.getByRole('region', { name: 'Versions and answers' }).locator('.version')
  await expectText(
    versions.nth(0),
    /1 field changed\s+price\s+added: -1[\s\S]*web\s+failed[\s\S]*422/,
  )
  await expectText(versions.nth(1), /first on record[\s\S]*web\s+delivered\s+HTTP 200/)
  expect(await seriousBarriers(page)).toEqual([])

  refused.delete('explained')
  await button(page, 'Retry what failed').click()
  await expectText(main, 'Every destination has what the source showed last')
  await versions.nth(0).getByText('1 earlier attempt').click()
  await expectText(versions.nth(0), /delivered\s+HTTP 200[\s\S]*failed/)
  opened?.expectQuiet()
})

test('reset asks first, and says how much is sent again to whom', async () => {
  await expect.poll(() => sent('resetting').length, { timeout: 20_000 }).toBe(2)
  const page = await open('flows?flow=resetting')
  const flow = card(page, 'resetting')
  await expectText(flow, /Items known\s+2/)
  await button(flow, 'Reset').click()
  const dialog = page.getByRole('dialog')
  await expectText(dialog, /2 items would be sent again, to:\s+web/)
  await page.keyboard.press('Escape')
  await expect.poll(() => dialog.count(), { timeout: 20_000 }).toBe(0)
  await button(flow, 'Sync').click()
  await expectText(flow, 'nothing changed')
  await button(flow, 'Reset').click()
  await button(dialog, 'Reset').click()
  await expectText(flow, 'the next run sends everything again')
  await button(flow, 'Resync').click()
  await button(dialog, 'Resync').click()
  await expectText(flow, 'Synced: 2 changes')
  await expect.poll(() => sent('resetting').length, { timeout: 20_000 }).toBe(4)
  opened?.expectQuiet()
})

test('the test of alerts tells what became of each channel', async () => {
  const page = await open('flows?flow=alerting')
  const flow = card(page, 'alerting')
  const answered = page.waitForResponse(/test-alerts/)
  await button(flow, 'Test alerts').click()
  expect((await answered).status()).toBe(207)
  const channels = page.getByRole('dialog').getByRole('listitem')
  await expect.poll(() => channels.count(), { timeout: 20_000 }).toBe(2)
  await expectText(channels.nth(0), 'sent')
  await expectText(channels.nth(1), /failed[\s\S]*refused/i)
  await button(page, 'Close').click()
  opened?.expectQuiet()
})

test('a wrong flow file is shown with its line and key, and is gone once it is mended', async () => {
  const page = await open()
  const problems = page.getByRole('region', { name: 'Problems of flow files' })
  await expectText(problems, /broken\.flow\.yaml:3:\d+/)
  await expectText(problems, 'polInterval')
  // No flow runs by it, so no card tells of it.
  expect(await page.getByText('runs by its former definition').count()).toBe(0)
  await flows.remove('broken.flow.yaml')
  await button(page, 'Read files again').click()
  await expect.poll(() => problems.count(), { timeout: 20_000 }).toBe(0)
  opened?.expectQuiet()
})

test('a flow whose file was made wrong says on its card that it runs by its former definition', async () => {
  const path = join(flows.flowsDir, 'resting.flow.yaml')
  const before = await readFile(path, 'utf8')
  await flows.write(
    'resting.flow.yaml',
    before.replace(/"pollInterval":"[^"]*"/, '"pollInterval":"soon"'),
  )
  await flows.call('POST', '/flows/reload')
  const page = await open('flows?flow=resting')
  await expectText(
    card(page, 'resting'),
    /It runs by its former definition: its file has a problem\s+resting\.flow\.yaml:1:\d+\s+pollInterval must be a duration/,
  )
  await flows.write('resting.flow.yaml', before)
  await flows.call('POST', '/flows/reload')
  await expect
    .poll(() => page.getByText('runs by its former definition').count(), { timeout: 20_000 })
    .toBe(0)
  opened?.expectQuiet()
})

test('names and texts from outside are text, and nothing scrolls sideways', async () => {
  await flows.flows.pause('hostile', 'colleague', hostileReason)
  const page = await open('flows?flow=hostile', { viewport: { width: 360, height: 740 } })
  await expectText(card(page, 'hostile'), '<script>alert(1)</script>')
  const key = encodeURIComponent(hostileKey)
  for (const [view, text] of [
    ['flows', '<b>bold</b>'],
    ['errors?flow=hostile', '<img src=x onerror=alert(1)>'],
    [`item?flow=hostile&pk=${key}`, '<img src=x onerror=alert(1)>'],
    ['activity', '<script>alert(1)</script>'],
  ] as const) {
    await page.goto(`${url}#/${view}`)
    await expectText(page.locator('main'), text)
    expect([view, await tooWideAt(page)]).toEqual([view, []])
    expect(await page.locator('main :is(img, script, b)').count()).toBe(0)
  }
  opened?.expectQuiet()
})

test('what a destination does not take yet stands among the errors, with its reason', async () => {
  await expect.poll(() => sent('late').length, { timeout: 20_000 }).toBeGreaterThan(1)
  const page = await open('flows?flow=late')
  await card(page, 'late').getByText('2 delayed').click()
  const late = page.getByRole('table', { name: 'Not there yet' })
  await expectText(late, /late\s+web[\s\S]*A-1[\s\S]*503/)
  expect([await sidewaysOverflow(page), await seriousBarriers(page)]).toEqual([0, []])
  await late.getByText('A-1').click()
  await expectText(page.locator('main'), 'On its way to')
  opened?.expectQuiet()
})

test('who reads Spanish reads in Spanish what was done to a flow', async () => {
  const named = (path: string) => flows.call('POST', path)
  await named('/sync/spoken')
  await named('/flow/spoken/limit/3')
  await named('/flow/spoken/retry')
  await named('/flow/spoken/test-alerts')
  const page = await open('activity?flow=spoken', { locale: 'es-AR' })
  for (const [action, detail] of [
    ['Sincronizado', /\d+ cambios?/],
    ['Limitado', /3 corridas/],
    ['Vuelto a enviar', /0 envíos/],
    ['Alertas probadas', /llegaron 1 de 2/],
  ] as const) {
    await expectText(page.getByRole('row', { name: new RegExp(action) }), detail)
  }
  await named('/flows/reload')
  await page.goto(`${url}#/activity`)
  await expectText(
    page.getByRole('row', { name: /Archivos releídos/ }).first(),
    /\d+ flujos, \d problemas?/,
  )
  await page.goto(`${url}#/flows?flow=resting`)
  await expectText(card(page, 'resting'), /fall(ó|aron)[^.]* con: HTTP 503/)
})

test('who reads Spanish reads in Spanish what is wrong with a flow file', async () => {
  await flows.write('falta.flow.yaml', 'version: one\nname: falta\npolInterval: 1m\nsource: 3\n')
  await flows.call('POST', '/flows/reload')
  const page = await open('', { locale: 'es-AR' })
  const problems = page.getByRole('region', { name: 'Problemas de los archivos de flujos' })
  await expectText(
    problems,
    /polInterval\s+no es una clave conocida\s+→ ¿quisiste decir pollInterval\?/,
  )
  await expectText(problems, /destinations\s+falta/)
  await expectText(problems, /source\s+tiene que ser un grupo de claves, no un número/)
  await flows.remove('falta.flow.yaml')
  await flows.call('POST', '/flows/reload')
  opened?.expectQuiet()
})

test('what differs in a version of an item is text, however long and whatever its direction', async () => {
  await expect.poll(() => sent('compared').length, { timeout: 20_000 }).toBe(2)
  const mark = '<img src=x onerror=alert(1)>\u202Etxt.exe'
  await flows.write('compared.json', [
    { id: 'A-1', [mark]: mark, deep: { '<b>': ['<script>alert(1)</script>'] } },
    { id: 'A-2', long: `<b>${'x'.repeat(10_000)}` },
  ])
  await flows.call('POST', '/sync/compared')
  for (const [pk, text] of [
    ['A-1', '<script>alert(1)</script>'],
    ['A-2', '<b>xxx'],
  ] as const) {
    const page = await open(`item?flow=compared&pk=${pk}`, {
      viewport: { width: 360, height: 740 },
    })
    const version = page.locator('.version', { hasText: text }).first()
    await version.waitFor()
    expect(await page.locator('main :is(img, script, b)').count()).toBe(0)
    expect([await sidewaysOverflow(page), await seriousBarriers(page)]).toEqual([0, []])
    opened?.expectQuiet()
    await opened?.close()
  }
})

const row = (page: Page, name: string) =>
  page.getByRole('table', { name: 'Flows' }).getByRole('row', { name: new RegExp(`\\b${name}\\b`) })

test('many flows stand in a table, worst first; what is picked out stands in the address', async () => {
  await flows.flows.pause('noticed', 'colleague', 'stocktaking')
  const page = await open()
  await expectText(row(page, 'resting'), /Running[\s\S]*Destination failing[\s\S]*web fails/)
  await expectText(row(page, 'calm'), /Running[\s\S]*Healthy/)
  const names = await page.locator('td.c-flow a').allInnerTexts()
  expect(names.indexOf('resting')).toBeLessThan(names.indexOf('calm'))
  expect(names.indexOf('noticed')).toBeGreaterThan(names.indexOf('resting'))
  await page.getByLabel('Show').selectOption('attention')
  await expect.poll(() => row(page, 'calm').count(), { timeout: 20_000 }).toBe(0)
  await expectText(row(page, 'noticed'), 'Paused')
  await page.getByLabel('Find flow').pressSequentially('notic')
  await expect.poll(() => row(page, 'resting').count(), { timeout: 20_000 }).toBe(0)
  await expect.poll(() => page.url(), { timeout: 20_000 }).toContain('q=notic')
  await page.reload()
  await expectText(row(page, 'noticed'), 'Paused')
  expect(await row(page, 'calm').count()).toBe(0)
  // A letter that is typed while the address is being changed, which the page hears of a moment later.
  await page.evaluate(`{
    const field = document.querySelector('input[name=find]')
    const type = (text) => { field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })) }
    navigation.addEventListener('currententrychange', () => type('notice'), { once: true })
    type('noti')
  }`)
  await expect.poll(() => page.url(), { timeout: 20_000 }).toMatch(/q=notice$/)
  expect(await page.getByLabel('Find flow').inputValue()).toBe('notice')
  await page.getByLabel('Find flow').fill('nothing like it')
  await expectText(page.locator('main'), 'No flow matches')
  expect([await tooWideAt(page), await seriousBarriers(page)]).toEqual([[], []])
  opened?.expectQuiet()
})

test('fifty flows are read by pages of at most three screens, in the order in which a person counts', async () => {
  const crowd = await startTestFlows({
    files: Object.fromEntries(
      Array.from({ length: 50 }, (_, index) => [
        `stock-${index + 1}.flow.yaml`,
        jsonFlow(`stock-${index + 1}`, target.url),
      ]),
    ),
  })
  try {
    const url = `${await crowd.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
    for (const viewport of [
      { width: 1280, height: 844 },
      { width: 390, height: 844 },
    ]) {
      const { page, close } = await openPage(url, { viewport })
      const names = page.locator('td.c-flow a')
      await expect.poll(() => names.count(), { timeout: 20_000 }).toBeGreaterThan(5)
      const first = await names.allInnerTexts()
      expect(first.slice(0, 3)).toEqual(['stock-1', 'stock-2', 'stock-3'])
      const height = await page.evaluate('document.documentElement.scrollHeight')
      expect(height).toBeLessThan(3 * viewport.height)
      await page.getByRole('link', { name: 'Next' }).click()
      await expectText(names.first(), `stock-${first.length + 1}`)
      await page.getByLabel('Find flow').fill('stock-50')
      await expect.poll(() => names.allInnerTexts(), { timeout: 20_000 }).toEqual(['stock-50'])
      await close()
    }
  } finally {
    await crowd.stop()
  }
})

test('a destination that rests says why and until when under a flow that runs, and is tried when asked', async () => {
  const page = await open('flows?flow=resting')
  const flow = card(page, 'resting')
  await expectText(
    flow,
    /Running[\s\S]*Destination failing[\s\S]*web fails: sending is paused[\s\S]*next try\s+in[\s\S]*HTTP 503/,
  )
  expect(await seriousBarriers(page)).toEqual([])
  unwell.delete('resting')
  await button(flow, 'Try now').click()
  await expectText(flow, 'Healthy')
  await expectText(flow, 'nothing waiting')
  opened?.expectQuiet()
})

test('the page of a flow tells of each run what it found, and what is not sent; one delete alone is answered', async () => {
  await expect.poll(() => sent('told').length, { timeout: 20_000 }).toBe(2)
  await flows.write('told.json', [
    { id: 'A-1', price: 1 },
    { id: 'B-1', hidden: true },
  ])
  await flows.flows.sync('told', { force: false })
  const page = await open('flows?flow=told')
  const runs = page.getByRole('table', { name: 'Runs' })
  await expectText(runs.getByRole('row').nth(1), /everything\s+2\s+1\s+1\s+0\s+0/)
  await expectText(
    page.getByRole('table', { name: 'Not to be sent' }),
    /B-1[\s\S]*web[\s\S]*filter/,
  )
  const missing = page.getByRole('region', { name: 'Gone at the source' })
  await expectText(missing, 'A-2')
  expect([await tooWideAt(page), await seriousBarriers(page)]).toEqual([[], []])
  await missing.getByRole('checkbox', { name: 'A-2' }).check()
  await button(missing, 'Answer for this item').click()
  const dialog = page.getByRole('dialog')
  await expectText(dialog, 'A-2')
  await dialog.getByRole('radio', { name: /^Delete/ }).check()
  await button(dialog, 'Answer').click()
  await expect.poll(() => missing.count(), { timeout: 20_000 }).toBe(0)
  expect(target.received.filter(({ method }) => method === 'DELETE')).toHaveLength(1)

  await button(card(page, 'told'), 'Send all again').click()
  await expectText(dialog, /would be sent again, to:\s+web/)
  const before = sent('told').length
  await button(dialog, 'Resync').click()
  await expect.poll(() => sent('told').length, { timeout: 20_000 }).toBeGreaterThan(before)
  opened?.expectQuiet()
})

test('a field that is missing at the source fails the poll, and the page says which', async () => {
  const items = Array.from({ length: 20 }, (_, n) => ({ id: `A-${n}`, price: n, name: `n${n}` }))
  await flows.write('lacking.json', items)
  await flows.flows.sync('lacking', { force: true })
  await allArrived('lacking')
  const before = sent('lacking').length
  expect(before).toBeGreaterThanOrEqual(20)
  await flows.write(
    'lacking.json',
    items.map(({ id, price }) => ({ id, price: price + 1 })),
  )
  await expect(flows.flows.sync('lacking', { force: true })).rejects.toThrow('"name"')
  const page = await open('flows?flow=lacking')
  await expectText(card(page, 'lacking'), /are in none of the records: .*name/)
  expect([await tooWideAt(page), await seriousBarriers(page)]).toEqual([[], []])
  expect(sent('lacking')).toHaveLength(before)
  opened?.expectQuiet()
})

test('a flow that asks, or whose deletes are held, needs somebody, and says all of why in his language', async () => {
  const flow = jsonFlow('asking', target.url, { startPaused: false })
  const sync = (name: string) => flows.flows.sync(name, { force: true })
  await sync('asking')
  const { destinations } = flow as { destinations: object[] }
  const mapped = destinations.map((one) => ({ ...one, map: '{ "code": id }' }))
  await allArrived('asking')
  await flows.write('asking.flow.yaml', { ...flow, destinations: mapped })
  await flows.call('POST', '/flows/reload')
  await sync('emptied')
  await flows.write('emptied.json', [])
  await Promise.all([sync('asking'), sync('emptied')])
  const options = { locale: 'es-AR', viewport: { width: 390, height: 800 } }
  const page = await open('flows?flow=asking', options)
  const asking = card(page, 'asking')
  await expectText(asking, /Revisar[\s\S]*La definición cambió/)
  const asked = asking.locator('p', { hasText: 'respondé si se envían' })
  expect(await cutOff(asked)).toBeLessThanOrEqual(1)
  await button(asking, 'Responder').click()
  const dialog = page.getByRole('dialog')
  await expectText(dialog, /Cambiados ahí[\s\S]*"code"[\s\S]*Dejar lo enviado/)
  expect([await tooWideAt(page), await seriousBarriers(page)]).toEqual([[], []])
  await dialog.getByRole('radio', { name: /Dejar lo enviado/ }).check()
  await button(dialog, 'Responder').click()
  await expect.poll(() => asked.count(), { timeout: 20_000 }).toBe(0)
  await page.goto(`${url}#/flows?flow=emptied`)
  const emptied = card(page, 'emptied')
  await expectText(emptied, /Revisar[\s\S]*2 bajas esperan respuesta: el origen está vacío/)
  await button(emptied, 'Responder').click()
  await expectText(
    dialog,
    /2 bajas esperan respuesta: el origen está vacío[\s\S]*Dejar[\s\S]*Borrar/,
  )
  expect([await tooWideAt(page), await seriousBarriers(page)]).toEqual([[], []])
  await dialog.getByRole('radio', { name: /Dejar/ }).check()
  await button(dialog, 'Responder').click()
  const held = emptied.locator('p', { hasText: 'esperan respuesta' })
  await expect.poll(() => held.count(), { timeout: 20_000 }).toBe(0)
  opened?.expectQuiet()
})

test('an access that is lost says what to do, whole, and offers no attempt that cannot help', async () => {
  const auth = lostAccess()
  const secret = (text: string) => new Secret(text, text)
  await flows.service.database.db
    .insertInto('oauth_grants')
    .values({
      id:
        grantIdOf({
          ...auth,
          tokenUrl: secret(auth.tokenUrl),
          clientId: secret(auth.clientId),
          clientSecret: secret('canary-secret'),
          refreshToken: secret('canary-first'),
        }) ?? '',
      ...{ refresh_token: 'v1.k1.x', version: 3, used_by: 'lost/web' },
      ...{ lost_at: flows.service.clock.now(), lost_reason: 'invalid_grant' },
      used_at: flows.service.clock.now(),
    })
    .execute()
  await flows.write('lost.json', [{ id: 'A-1', v: 1 }])
  await flows.flows.sync('lost', { force: true })
  const page = await open('flows?flow=lost', {
    locale: 'es-AR',
    viewport: { width: 390, height: 800 },
  })
  const lost = card(page, 'lost')
  const told = lost.locator('p', { hasText: 'Autorizá la aplicación otra vez' })
  await expectText(lost, 'web perdió la autorización')
  await expectText(
    told,
    `no hay token de acceso: quien lo emite rechazó el refresh token (invalid_grant); se revocó, lo usó otro o volvió con una copia de seguridad. Autorizá la aplicación otra vez, poné el nuevo refresh token en \${env:FIRST_TOKEN} (si es una variable, reiniciá) y releé los archivos de flujos.`,
  )
  expect(await cutOff(told)).toBeLessThanOrEqual(1)
  expect(await button(lost, 'Probar ahora').count()).toBe(0)
})

test('speaks Spanish and English, and keeps the choice', async () => {
  const page = await open('', { locale: 'es-AR' })
  await expectText(page.locator('h1'), 'Flujos')
  await button(page, 'English').click()
  await expectText(page.locator('h1'), 'Flows')
  await page.reload()
  await expectText(page.locator('h1'), 'Flows')
  expect(await page.locator('html').getAttribute('lang')).toBe('en')
  opened?.expectQuiet()
})

test('the keyboard alone pauses a flow', async () => {
  const page = await open('flows?flow=a-keyboard')
  await expectText(card(page, 'a-keyboard'), 'Running')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  expect(await page.evaluate('document.activeElement.id')).toBe('content')
  const pause = button(card(page, 'a-keyboard'), 'Pause')
  for (let step = 0; step < 200; step += 1) {
    await page.keyboard.press('Tab')
    if (await pause.evaluate((element) => element.matches(':focus'))) break
  }
  await page.keyboard.press('Enter')
  await page.keyboard.type('by keyboard')
  await page.keyboard.press('Enter')
  await expectText(card(page, 'a-keyboard'), 'by keyboard')
  opened?.expectQuiet()
})

test('a lost connection is told, what was seen stays, and it recovers by itself', async () => {
  const page = await open('flows?flow=pausing')
  await expectText(card(page, 'pausing'), 'Last run')
  await page.context().setOffline(true)
  await expectText(page.locator('main'), 'Connection lost')
  expect(await card(page, 'pausing').count()).toBe(1)
  await page.context().setOffline(false)
  await expectText(page.locator('header'), 'Live')
  await expect.poll(() => page.getByText('Connection lost').count(), { timeout: 20_000 }).toBe(0)
  opened?.expectQuiet(/ERR_INTERNET_DISCONNECTED/)
})

test('asks for the token where one is set, keeps it out of addresses, and forgets it', async () => {
  const token = 'sync-token-for-tests-0123456789abcdef'
  const guarded = await startTestFlows({ env: { SYNC_TOKEN: token } })
  try {
    const address = await guarded.app.listen({ host: '127.0.0.1', port: 0 })
    opened = await openPage(`${address}/admin`)
    const { page, requested } = opened
    await page.getByLabel('Token').fill('wrong')
    await page.keyboard.press('Enter')
    await expectText(page.getByRole('alert'), 'not valid')
    await page.getByLabel('Token').fill(token)
    await page.keyboard.press('Enter')
    await expectText(page.locator('main'), 'No flows yet')
    await page.reload()
    await expectText(page.locator('main'), 'No flows yet')
    expect(await page.evaluate('Object.values(localStorage).join() + document.cookie')).toBe('')
    await button(page, 'Sign out').click()
    expect(await page.getByLabel('Token').inputValue()).toBe('')
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
    expect([...requested, page.url()].filter((one) => one.includes(token))).toEqual([])
    opened.expectQuiet(/401/)
  } finally {
    await guarded.stop()
  }
})
