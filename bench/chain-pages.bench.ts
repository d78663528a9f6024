import type { Browser } from 'playwright-core'
import { hasChromium, launchBrowser } from '../test/support/chromium.ts'
import { startSeededChain } from '../test/support/seeded-chain.ts'
import { adminToken } from '../test/support/service.ts'
import { isEmbedded, quantile, say, withService } from './bench-service.ts'
import { type Line, openOver, type SignedIn, signIn } from './page-browser.ts'
import { wholeOptions } from './whole-options.ts'

// When does the first content of both pages come with the chain of the demo: 10 stores, 300 boxes, 9,000 charges, 50 flows?
// Chromium opens each page once without anything stored (cold), then `rounds` times (warm).
// Run: npm run bench -- chain-pages [--rounds 5]; needs Chromium and PostgreSQL. It fails where the median of the warm
// openings is above a second. The weight counts parts for later too; test/e2e/chain.e2e.ts limits that of the first content.

const lines: Line[] = [60, 170].map((roundTripMs) => ({
  ...{ name: `9 Mbit/s, ${roundTripMs} ms`, kbitPerSecond: 9_000 },
  roundTripMs,
}))
const mostContentMs = 1_000

const { rounds } = wholeOptions({ rounds: 5 })

type Subject = { name: string; url: string; selector: string; cookies: SignedIn }

async function compare(browser: Browser, subject: Subject): Promise<void> {
  for (const line of lines) {
    const context = await browser.newContext({ locale: 'es-AR' })
    await context.addCookies(subject.cookies)
    const cold = await openOver(context, line, subject)
    const warm: number[] = []
    for (let round = 0; round < rounds; round += 1) {
      warm.push((await openOver(context, line, subject)).dataMs)
    }
    await context.close()
    const middle = quantile(warm, 0.5)
    const kb = cold.bytes / 1024
    say(
      `  ${subject.name}, ${line.name}: content cold ${cold.dataMs.toFixed(0)} ms and ${kb.toFixed(0)} KB, ` +
        `warm ${middle.toFixed(0)} ms (slowest ${Math.max(...warm).toFixed(0)})`,
    )
    if (middle <= mostContentMs) continue
    say(`    TOO SLOW: at most ${mostContentMs} ms warm`)
    process.exitCode = 1
  }
}

if (isEmbedded) say('chain-pages.bench.ts is skipped: it needs PostgreSQL in TEST_DATABASE_URL')
else if (!hasChromium) say('chain-pages.bench.ts is skipped: it needs Chromium, by CHROMIUM_PATH')
else {
  const browser = await launchBrowser()
  try {
    await withService(0, async ({ service, at }) => {
      const chain = await startSeededChain({ service, closings: true, flows: true })
      try {
        const cookies = await signIn(browser, at(''), adminToken)
        const admin = await chain.flows?.app.listen({ host: '127.0.0.1', port: 0 })
        const row = 'main tbody tr'
        for (const subject of [
          { name: '/dashboard', url: at('/dashboard'), selector: '.store-row', cookies },
          { name: '/dashboard, orders', url: at('/dashboard#/orders'), selector: row, cookies },
          { name: '/admin', url: `${admin}/admin`, selector: row, cookies: [] },
        ]) {
          await compare(browser, subject)
        }
      } finally {
        await chain.stop()
      }
    })
  } finally {
    await browser.close()
  }
}
