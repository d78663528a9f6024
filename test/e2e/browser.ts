import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { expect } from 'vitest'
import { launchBrowser } from '../support/chromium.ts'

/** One for all files of a worker, each page in a profile of its own; it ends with the worker. */
export const browser = await launchBrowser()

export type WatchedPage = {
  page: Page
  /** Addresses of all requests so far. */
  requested: string[]
  /** Fails when the page complained, by exception, console or content security policy, other than as allowed. */
  expectQuiet(allowed?: RegExp): void
  close(): Promise<void>
}

const generousMs = 20_000

/** A page in a browser profile of its own, in English unless the options say otherwise. */
export async function openPage(
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ locale: 'en-GB', ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(generousMs)
  const complaints: string[] = []
  const requested: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  // Refused resources and violations of the content security policy are reported here too.
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', (request) => requested.push(request.url()))
  await page.goto(url)
  return {
    page,
    requested,
    expectQuiet(allowed) {
      expect(complaints.filter((text) => !allowed?.test(text))).toEqual([])
    },
    close: () => context.close(),
  }
}

/** Signs in to the dashboard that `page` shows. */
export async function signIn(page: Page, token: string): Promise<void> {
  await page.locator('#token').fill(token)
  await page.keyboard.press('Enter')
  await page.locator('#title').waitFor()
}

/** Waits until it reads so. */
export async function expectText(locator: Locator, text: string | RegExp): Promise<void> {
  await expect
    .poll(() => locator.innerText(), { timeout: generousMs })
    .toEqual(typeof text === 'string' ? expect.stringContaining(text) : expect.stringMatching(text))
}

/** The button of exactly this name. */
export function button(scope: Page | Locator, name: string | RegExp): Locator {
  return scope.getByRole('button', { name, exact: true })
}

const axeSource = readFileSync(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
)

type AxeResults = {
  violations: {
    id: string
    impact: string | null
    nodes: { html: string; failureSummary: string }[]
  }[]
}

/** What axe finds, whatever weight it gives it. */
export async function barriers(page: Page): Promise<string[]> {
  return (await violations(page)).flatMap(describeViolation)
}

/**
 * The same in the light colors, in which the page was opened, and of the dark ones what axe finds in colors: the color scheme
 * changes nothing else.
 */
export async function barriersInBothSchemes(page: Page): Promise<string[]> {
  const found = await barriers(page)
  await page.emulateMedia({ colorScheme: 'dark' })
  const ofColor = await violations(page, { runOnly: ['color-contrast', 'link-in-text-block'] })
  await page.emulateMedia({ colorScheme: 'light' })
  return [...found, ...ofColor.flatMap(describeViolation).map((barrier) => `dark: ${barrier}`)]
}

/** What axe finds that keeps people out; lesser advice is left aside. */
export async function seriousBarriers(page: Page): Promise<string[]> {
  return (await violations(page))
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(describeViolation)
}

async function violations(
  page: Page,
  options: { runOnly?: string[] } = {},
): Promise<AxeResults['violations']> {
  // The next view of a page that was not loaded again has it still.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axeSource)
  const results = await page.evaluate<AxeResults>(
    `axe.run(document, ${JSON.stringify({ resultTypes: ['violations'], ...options })})`,
  )
  return results.violations
}

const describeViolation = ({ id, nodes }: AxeResults['violations'][number]): string[] =>
  nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`)

/** From a phone to a wide screen, and where the layout changes in between. */
const widths = [360, 780, 1024, 1200, 1600]

/** At which widths of the window the page has to be scrolled sideways. */
export async function tooWideAt(page: Page): Promise<number[]> {
  const before = page.viewportSize()
  const found: number[] = []
  for (const width of widths) {
    await page.setViewportSize({ width, height: 740 })
    if ((await sidewaysOverflow(page)) > 0) found.push(width)
  }
  if (before) await page.setViewportSize(before)
  return found
}

/** By how many pixels the page is wider than its window; 0 when nothing has to be scrolled sideways. */
export function sidewaysOverflow(page: Page): Promise<number> {
  return page.evaluate<number>(
    'Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)',
  )
}
