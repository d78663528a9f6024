import type { Browser, Page } from 'playwright-core'
import { hasChromium, launchBrowser } from '../test/support/chromium.ts'
import { jsonFlow, startTestFlows } from '../test/support/flows.ts'
import { adminToken } from '../test/support/service.ts'
import { type BenchService, isEmbedded, quantile, say, withService } from './bench-service.ts'
import { type Line, type Opening, openOver, type SignedIn, signIn } from './page-browser.ts'
import { fillFailures, fillFlow, fillOrders, fillShops } from './page-data.ts'
import { muchData, wholeOptions } from './whole-options.ts'

// What do both pages weigh, when does somebody with a slow line see something and when the first figures, and how long
// does going from view to view take when there is much to show? Chromium opens them from the real service, over lines as
// its developer tools imitate them: without anything stored (cold) and once more (warm).
// Run: npm run bench -- pages [--orders 10000] [--items 100000] [--clients 40] [--boxes 200] [--rounds 5] [--flows 200]
// [--groups 20000]; needs Chromium and PostgreSQL.

const lines: Line[] = [
  { name: '3G, 1.6 Mbit/s and 150 ms', kbitPerSecond: 1_600, roundTripMs: 150 },
  { name: 'slow, 400 kbit/s and 400 ms', kbitPerSecond: 400, roundTripMs: 400 },
]
const mostKb = 150
const mostPaintMs = 1_000
const changes = 20
const patienceMs = 20_000

type Subject = { name: string; url: string; selector: string; cookies: SignedIn }

const { orders, items, clients, boxes, rounds, flows, groups } = wholeOptions({
  ...muchData,
  rounds: 5,
  flows: 200,
  groups: 20_000,
})
/** Of the pages with everything on them. */
const mostFlowsKb = 100
/** A chain of 1,000 boxes and 200 flows, over a line as shops have it: what is seen first, and frames while one scrolls. */
const chain = { clients: 40, boxes: 805, orders: 5_000 }
const shopLine: Line = { name: '4G, 9 Mbit/s and 60 ms', kbitPerSecond: 9_000, roundTripMs: 60 }
const mostContentMs = 1_000
const mostFrameMs = 50

async function measure(browser: Browser, subject: Subject, line: Line) {
  const cold: Opening[] = []
  const warm: Opening[] = []
  for (let round = 0; round < rounds; round += 1) {
    const context = await browser.newContext({ locale: 'es-AR' })
    await context.addCookies(subject.cookies)
    cold.push(await openOver(context, line, subject))
    warm.push(await openOver(context, line, subject))
    await context.close()
  }
  return { cold, warm }
}

function printOpenings(label: string, openings: Opening[]): Opening {
  const middle = (of: (one: Opening) => number) => quantile(openings.map(of), 0.5)
  const one = {
    bytes: middle(({ bytes }) => bytes),
    requests: middle(({ requests }) => requests),
    paintMs: middle(({ paintMs }) => paintMs),
    dataMs: middle(({ dataMs }) => dataMs),
  }
  const slowest = Math.max(...openings.map(({ paintMs }) => paintMs))
  say(
    `    ${label}: ${(one.bytes / 1024).toFixed(1)} KB in ${one.requests} requests, first paint ${one.paintMs.toFixed(0)} ms ` +
      `(slowest ${slowest.toFixed(0)}), content ${one.dataMs.toFixed(0)} ms`,
  )
  return one
}

/**
 * Goes there by the address, as a click does, and answers how long it takes until what `selector` names is shown and `also`
 * holds in the page.
 */
function goTo(page: Page, hash: string, selector: string, also = 'true'): Promise<number> {
  return page.evaluate<number>(`new Promise((resolve, reject) => {
    const startedAt = performance.now()
    location.hash = ${JSON.stringify(hash)}
    const check = () => {
      const isThere = document.querySelector(${JSON.stringify(selector)}) && !document.querySelector('.waiting') &&
        ${also}
      const ms = performance.now() - startedAt
      if (isThere) resolve(ms)
      else if (ms > ${patienceMs}) reject(new Error(${JSON.stringify(`${hash} is not shown`)}))
      else requestAnimationFrame(check)
    }
    requestAnimationFrame(check)
  })`)
}

async function walk(
  browser: Browser,
  url: string,
  cookies: SignedIn,
  views: Record<string, string>,
) {
  const context = await browser.newContext({ locale: 'es-AR' })
  await context.addCookies(cookies)
  const page = await context.newPage()
  const [[home, homeSelector] = ['', '']] = Object.entries(views)
  await page.goto(`${url}#/${home}`)
  await page.locator(homeSelector).first().waitFor()
  for (const [view, selector] of Object.entries(views).slice(1)) {
    const times: number[] = []
    const back: number[] = []
    for (let change = 0; change < changes; change += 1) {
      times.push(await goTo(page, `#/${view}`, selector))
      back.push(await goTo(page, `#/${home}`, homeSelector))
    }
    say(`    to ${view}: ${figures(times)}; back: ${figures(back)}`)
  }
  await context.close()
}

/** Goes through a list by its own links, further and further back. */
async function leaf(browser: Browser, url: string, cookies: SignedIn): Promise<void> {
  const context = await browser.newContext({ locale: 'es-AR' })
  await context.addCookies(cookies)
  const page = await context.newPage()
  for (const view of ['orders', 'webhooks', 'activity']) {
    await page.goto(`${url}#/${view}`)
    await page.locator('h1#title').waitFor()
    await page.locator('nav.pager').waitFor()
    const times: number[] = []
    for (let change = 0; change < changes; change += 1) {
      const { hash, first } = await page.evaluate<{ hash: string; first: string }>(`({
        hash: document.querySelector('nav.pager a[rel=next]').hash,
        first: document.querySelector('main tbody').textContent })`)
      const other = JSON.stringify(first)
      times.push(
        await goTo(
          page,
          hash,
          'nav.pager',
          `document.querySelector('main tbody').textContent !== ${other}`,
        ),
      )
    }
    say(`    a page further in ${view}: ${figures(times)}`)
  }
  await context.close()
}

const figures = (times: number[]) =>
  `p50 ${quantile(times, 0.5).toFixed(0)} ms, max ${Math.max(...times).toFixed(0)} ms`

/** As many flows as are asked for, with nothing to send to. */
async function startFlows({ service }: BenchService) {
  const names = Array.from({ length: flows }, (_, index) => `flow-${index}`)
  const files = Object.fromEntries(
    names.map((name) => [`${name}.flow.yaml`, jsonFlow(name, 'http://127.0.0.1:9')]),
  )
  return { names, side: await startTestFlows({ service, files }) }
}

/**
 * The flows' page with many flows and groups of errors: what it weighs, and whether it goes on smoothly while it is scrolled
 * and drawn again.
 */
async function manyFlows(bench: BenchService, browser: Browser): Promise<void> {
  const { names, side } = await startFlows(bench)
  try {
    await fillFailures(bench.service.database, names, groups)
    const admin = `${await side.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
    const [line] = lines
    if (!line) return
    say(`  ${flows} flows, ${groups} groups of errors, ${line.name} round trip`)
    for (const [name, hash, selector] of [
      ['flows', '', 'main tbody tr'],
      ['errors', '#/errors', '.groups article'],
    ] as const) {
      const subject = { name, url: `${admin}${hash}`, selector, cookies: [] }
      const { cold, warm } = await measure(browser, subject, line)
      say(`   /admin, ${name}`)
      const first = printOpenings('cold', cold)
      printOpenings('warm', warm)
      if (first.bytes > mostFlowsKb * 1024 || first.paintMs > mostPaintMs) {
        say(`    TOO MUCH: at most ${mostFlowsKb} KB and ${mostPaintMs} ms to the first paint`)
        process.exitCode = 1
      }
    }
    say(`    frames while it is scrolled from end to end: ${figures(await scroll(browser, admin))}`)
  } finally {
    await side.stop()
  }
}

/** The overview, the orders and the flows of a chain: within 100 KB and a second, and without a stutter in long lists. */
async function atOnce(bench: BenchService, browser: Browser): Promise<void> {
  const [shop] = bench.shops
  if (!shop) throw new Error('there is no shop')
  await fillShops(bench.service.database, shop, chain)
  await fillOrders(bench.service.database, shop, chain.orders)
  const { side } = await startFlows(bench)
  try {
    const cookies = await signIn(browser, bench.at(''), adminToken)
    const dashboard = bench.at('/dashboard')
    const admin = `${await side.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
    const row = 'main tbody tr'
    say(`  1000 boxes, ${flows} flows, ${shopLine.name} round trip`)
    for (const subject of [
      { name: '/dashboard, overview', url: dashboard, selector: '.light', cookies },
      { name: '/dashboard, orders', url: `${dashboard}#/orders`, selector: row, cookies },
      { name: '/admin, flows', url: admin, selector: row, cookies: [] },
    ]) {
      const { cold, warm } = await measure(browser, subject, shopLine)
      say(`   ${subject.name}`)
      const first = printOpenings('cold', cold)
      printOpenings('warm', warm)
      if (first.bytes > mostFlowsKb * 1024 || first.dataMs > mostContentMs) {
        say(`    TOO MUCH: at most ${mostFlowsKb} KB and ${mostContentMs} ms to the first content`)
        process.exitCode = 1
      }
    }
    for (const [name, times] of [
      ['all boxes', await scroll(browser, dashboard, '.light', cookies)],
      ['all flows', await scroll(browser, admin, row)],
    ] as const) {
      say(`    frames while ${name} are scrolled from end to end: ${figures(times)}`)
      if (quantile(times, 0.95) > mostFrameMs) {
        say(`    STUTTERS: 95 of 100 frames within ${mostFrameMs} ms`)
        process.exitCode = 1
      }
    }
  } finally {
    await side.stop()
  }
}

/** Milliseconds from frame to frame while a page with all of its rows is scrolled to its end and back. */
async function scroll(
  browser: Browser,
  url: string,
  selector = 'main tbody tr',
  cookies: SignedIn = [],
): Promise<number[]> {
  const context = await browser.newContext({ locale: 'en-GB' })
  await context.addCookies(cookies)
  const page = await context.newPage()
  await page.goto(url)
  await page.locator(selector).first().waitFor()
  const whole = page.getByRole('button', { name: /^Show all/ })
  if ((await whole.count()) > 0) {
    const all = Number((await whole.innerText()).replaceAll(/\D/g, ''))
    await whole.click()
    // Else the few rows before are scrolled, and the drawing of the others counts as a frame of that.
    await page
      .locator(selector)
      .nth(all - 1)
      .waitFor({ state: 'attached' })
  }
  const times = await page.evaluate<number[]>(`new Promise((resolve) => {
    const times = []
    const end = document.documentElement.scrollHeight - innerHeight
    let before = performance.now()
    const step = (now) => {
      times.push(now - before)
      before = now
      scrollTo(0, end * (1 - Math.abs(1 - times.length / 60)))
      if (times.length < 120) requestAnimationFrame(step)
      else resolve(times.slice(1))
    }
    requestAnimationFrame(step)
  })`)
  await context.close()
  return times
}

async function compare(bench: BenchService, browser: Browser): Promise<void> {
  const [shop] = bench.shops
  if (!shop) throw new Error('there is no shop')
  await fillShops(bench.service.database, shop, { clients, boxes })
  const order = await fillOrders(bench.service.database, shop, orders)
  const flow = jsonFlow('articulos', 'http://127.0.0.1:9')
  const flows = await startTestFlows({
    service: bench.service,
    files: { 'articulos.flow.yaml': flow, 'articulos.json': [] },
  })
  await fillFlow(bench.service.database, 'articulos', items)
  const control = await flows.app.listen({ host: '127.0.0.1', port: 0 })
  try {
    const cookies = await signIn(browser, bench.at(''), adminToken)
    const dashboard = bench.at('/dashboard')
    const admin = `${control}/admin`
    const row = 'main tbody tr'
    const client = encodeURIComponent(shop.client)
    const today = new Date().toISOString().slice(0, 10)
    const subjects: Subject[] = [
      { name: '/dashboard, signed out', url: dashboard, selector: '#token', cookies: [] },
      { name: '/dashboard, overview', url: dashboard, selector: row, cookies },
      { name: '/dashboard, orders', url: `${dashboard}#/orders`, selector: row, cookies },
      { name: '/admin, flows', url: admin, selector: 'main article.flow', cookies: [] },
    ]
    say(
      `${orders} orders, ${clients} clients, ${boxes} boxes of one, ${items} items of a flow, on ${bench.engine}; ` +
        `median of ${rounds}`,
    )
    for (const line of lines) {
      say(`  ${line.name} round trip`)
      for (const subject of subjects) {
        const { cold, warm } = await measure(browser, subject, line)
        say(`   ${subject.name}`)
        const first = printOpenings('cold', cold)
        printOpenings('warm', warm)
        if (line !== lines[0]) continue
        if (first.bytes > mostKb * 1024 || first.paintMs > mostPaintMs) {
          say(`    TOO MUCH: at most ${mostKb} KB and ${mostPaintMs} ms to the first paint`)
          process.exitCode = 1
        }
      }
    }
    say(`  from view to view without a slow line, ${changes} times each`)
    say('   /dashboard')
    await walk(browser, dashboard, cookies, {
      overview: '.numbers',
      orders: 'nav.pager',
      'orders?status=failed': 'nav.pager',
      'orders?q=B-77': 'nav.pager',
      [`orders?client=${client}&caja_id=CAJA-77`]: 'details.filters ~ * tbody tr',
      [`orders?from=${today}`]: 'nav.pager',
      [`orders/${order}?of=${client}`]: '.timeline',
      [`stores?client=${client}`]: '.boxes .box',
      clients: '.c-keys',
      webhooks: '.empty, .c-signature',
      activity: '.c-action',
    })
    await leaf(browser, dashboard, cookies)
    say('   /admin')
    await walk(browser, admin, [], {
      flows: 'article.flow',
      errors: '.groups',
      'item?pk=A-77777': 'form[role=search] ~ table tbody tr',
      'item?flow=articulos&pk=A-77777': 'form[role=search] ~ section h2',
      activity: 'main:not(:has(article.flow)) :is(.empty, tbody tr)',
    })
  } finally {
    await flows.stop()
  }
}

if (isEmbedded) say('pages.bench.ts is skipped: it needs PostgreSQL in TEST_DATABASE_URL')
else if (!hasChromium) say('pages.bench.ts is skipped: it needs Chromium, by CHROMIUM_PATH')
else {
  const browser = await launchBrowser()
  try {
    await withService(1, (bench) => compare(bench, browser))
    await withService(1, (bench) => manyFlows(bench, browser))
    await withService(1, (bench) => atOnce(bench, browser))
  } finally {
    await browser.close()
  }
}
