import type { ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasNginx, startNginx, stopProxy } from '../process/proxies.ts'
import { adminTokenOf, freePort, type RealProcess, startService } from '../process/real-process.ts'
import { prepareData } from '../support/pglite-template.ts'
import { openPage, signIn } from './browser.ts'

/** Both pages below paths of one host, behind a real nginx. */

const syncToken = 's'.repeat(32)
let folder = ''
let nginx: ChildProcess | undefined
let running: RealProcess | undefined
let host = ''

beforeAll(async () => {
  if (!hasNginx) return
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-proxy-'))
  await prepareData(folder)
  const ports = {
    port: await freePort(),
    keptPort: await freePort(),
    payment: await freePort(),
    control: await freePort(),
  }
  host = `http://127.0.0.1:${ports.port}`
  running = await startService({
    DATA_DIR: folder,
    PORT: String(ports.payment),
    SYNC_PORT: String(ports.control),
    SANDBOX_PORT: String(await freePort()),
    PUBLIC_URL: `${host}/caja`,
    SYNC_PUBLIC_URL: `${host}/flujos`,
    SYNC_TOKEN: syncToken,
    TRUST_PROXY: 'loopback',
    FLOWS_DIR: join(folder, 'no-flows'),
  })
  nginx = await startNginx(join(folder, 'nginx'), ports)
}, 120_000)

afterAll(async () => {
  await stopProxy(nginx)
  running?.child.kill('SIGKILL')
  await running?.ended
  if (folder) await rm(folder, { recursive: true, force: true })
})

describe.skipIf(!hasNginx)('below a path of the host', () => {
  test('the dashboard signs in, shows its views, listens, and leads to the flows', async () => {
    const { page, requested, expectQuiet, close } = await openPage(`${host}/caja/`)
    expect(page.url()).toBe(`${host}/caja/dashboard`)
    await signIn(page, await adminTokenOf(folder))
    await expect.poll(() => requested).toContain(`${host}/caja/events`)
    for (const view of ['clients', 'orders', 'closings', 'webhooks', 'activity']) {
      await page.goto(`${host}/caja/dashboard#/${view}`)
      await page.locator(`nav a[href^="#/${view}"][aria-current="page"]`).waitFor()
    }
    await page.reload()
    await page.locator('#title').waitFor()
    expect(requested.filter((url) => !url.startsWith(`${host}/caja/`))).toEqual([])
    // Before the sign-in there is no session.
    expectQuiet(/401/)
    await page.locator(`a[href="${host}/flujos/admin"]`).click()
    await page.waitForURL(`${host}/flujos/admin`)
    await page.locator('#token').waitFor()
    await close()
  })

  test('the page of the flows signs in and shows them', async () => {
    const { page, requested, expectQuiet, close } = await openPage(`${host}/flujos/admin`)
    await signIn(page, syncToken)
    await expect.poll(() => requested).toContain(`${host}/flujos/flows/events`)
    expect(requested.filter((url) => !url.startsWith(`${host}/flujos/`))).toEqual([])
    expectQuiet(/401/)
    await close()
  })
})
