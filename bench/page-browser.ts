import type { Browser, BrowserContext, CDPSession } from 'playwright-core'
import { countPageBytes, sumOfBytes } from '../test/support/page-bytes.ts'

/** A line as browsers' developer tools imitate it: each answer begins one round trip late at the earliest. */
export type Line = { name: string; kbitPerSecond: number; roundTripMs: number }

/** One opening of a page: milliseconds from the navigation, bytes as they came over the line. */
export type Opening = { bytes: number; requests: number; paintMs: number; dataMs: number }

/** Runs in the page: remembers when what `selector` names was first there. */
const watchFor = (selector: string) => `
  new MutationObserver((_, observer) => {
    if (!document.querySelector(${JSON.stringify(selector)})) return
    observer.disconnect()
    requestAnimationFrame(() => { globalThis.dataMs = performance.now() })
  }).observe(document, { childList: true, subtree: true })`

/** A paint is reported a moment after it happened. */
const firstPaint = `new Promise((resolve) => {
  new PerformanceObserver((list) => {
    for (const { name, startTime } of list.getEntries()) {
      if (name === 'first-contentful-paint') resolve(startTime)
    }
  }).observe({ type: 'paint', buffered: true })
})`

async function throttle(session: CDPSession, line: Line): Promise<void> {
  const bytesPerSecond = (line.kbitPerSecond * 1000) / 8
  await session.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: line.roundTripMs,
    downloadThroughput: bytesPerSecond,
    uploadThroughput: bytesPerSecond,
  })
}

/** Opens `url` in a new tab over `line` and waits until the element of `selector` is there. */
export async function openOver(
  context: BrowserContext,
  line: Line,
  { url, selector }: { url: string; selector: string },
): Promise<Opening> {
  const page = await context.newPage()
  const session = await context.newCDPSession(page)
  const seen = await countPageBytes(session)
  await throttle(session, line)
  await page.addInitScript(watchFor(selector))
  await page.goto(url)
  // Not by waitForFunction, whose way of asking the pages' policy refuses.
  await page.locator(selector).first().waitFor({ state: 'attached', timeout: 60_000 })
  const opening = { bytes: sumOfBytes(seen), requests: seen.size }
  const dataMs = await page.evaluate<number>('globalThis.dataMs')
  const paintMs = await page.evaluate<number>(firstPaint)
  await page.close()
  return { ...opening, paintMs, dataMs }
}

export type SignedIn = Awaited<ReturnType<BrowserContext['cookies']>>

/** The cookies of a session on the dashboard. */
export async function signIn(browser: Browser, base: string, token: string): Promise<SignedIn> {
  const context = await browser.newContext()
  const answer = await context.request.post(`${base}/session`, { data: { token } })
  if (!answer.ok()) throw new Error(`signing in is answered ${answer.status()}`)
  const cookies = await context.cookies()
  await context.close()
  return cookies
}
