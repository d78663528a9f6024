import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

/** The headless build starts nothing of a window, so it comes first; `CHROMIUM_PATH` names any other. */
const known = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium']

const executablePath =
  process.env.CHROMIUM_PATH || (known.find((path) => existsSync(path)) ?? '/usr/bin/chromium')

export const hasChromium = existsSync(executablePath)

/**
 * Features that are off: pages are asked for and painted as they are. The whole browser would load the address bar's
 * suggestions, two pages of its own, for each window, which takes as much processor as the page that is measured.
 */
const featuresOff = [
  'HttpsUpgrades',
  'PaintHolding',
  'Translate',
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
]

/** Nothing of the machine's own settings, and no traffic but that of the pages. */
const args = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  `--disable-features=${featuresOff.join(',')}`,
]

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath, args })
}
