import type { ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { prepareData } from '../support/pglite-template.ts'
import { location } from '../support/till.ts'
import { hasCaddy, hasNginx, startCaddy, startNginx, stopProxy } from './proxies.ts'
import { adminTokenOf, freePort, type RealProcess, startService } from './real-process.ts'

/** The service below a path of a host that it shares, behind a real nginx and a real Caddy with the files that are shipped. */

const syncToken = 's'.repeat(32)
let dataDir = ''
let nginx: ChildProcess | undefined
let caddy: ChildProcess | undefined
let running: RealProcess | undefined
let sandboxUrl = ''
let base = ''
let admin = ''
/** The same paths by a proxy that takes the prefix off, one that leaves it, and none. */
let ways: Record<string, string> = {}

beforeAll(async () => {
  if (!hasNginx) return
  dataDir = await mkdtemp(join(tmpdir(), 'tillbridge-nginx-'))
  await prepareData(dataDir)
  const ports = {
    port: await freePort(),
    keptPort: await freePort(),
    caddyPort: await freePort(),
    payment: await freePort(),
    control: await freePort(),
  }
  const sandboxPort = await freePort()
  base = `http://127.0.0.1:${ports.port}/caja`
  sandboxUrl = `http://127.0.0.1:${sandboxPort}`
  running = await startService({
    DATA_DIR: dataDir,
    PORT: String(ports.payment),
    SYNC_PORT: String(ports.control),
    SANDBOX_PORT: String(sandboxPort),
    PUBLIC_URL: base,
    SYNC_PUBLIC_URL: `http://127.0.0.1:${ports.port}/flujos`,
    SYNC_TOKEN: syncToken,
    TRUST_PROXY: 'loopback',
    POS_CREATE_DELAY_MS: '0',
    FLOWS_DIR: join(dataDir, 'no-flows'),
  })
  nginx = await startNginx(join(dataDir, 'nginx'), ports)
  if (hasCaddy) {
    caddy = await startCaddy(join(dataDir, 'caddy'), { ...ports, port: ports.caddyPort })
  }
  admin = await adminTokenOf(dataDir)
  ways = {
    shortened: `http://127.0.0.1:${ports.port}`,
    'as it came': `http://127.0.0.1:${ports.keptPort}`,
    'by Caddy': `http://127.0.0.1:${ports.caddyPort}`,
  }
}, 120_000)

afterAll(async () => {
  await stopProxy(nginx)
  await stopProxy(caddy)
  running?.child.kill('SIGKILL')
  await running?.ended
  if (dataDir) await rm(dataDir, { recursive: true, force: true })
})

async function json(url: string, token: string, body?: object, method = body ? 'POST' : 'GET') {
  const response = await fetch(url, {
    method,
    headers: { 'x-api-token': token, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const browser = { accept: 'text/html', 'accept-language': 'en' }

/** Opens a page as a browser does, with all that it names; answers the addresses. */
async function openPage(url: string): Promise<string[]> {
  const response = await fetch(url, { headers: browser })
  expect([url, response.status]).toEqual([url, 200])
  const html = await response.text()
  const named = [...html.matchAll(/<(?:link|script|meta)[^>]* (?:href|src|content)="([^"]+)"/g)]
    .map((match) => String(match[1]).replaceAll('&amp;', '&'))
    .filter((text) => /\.\w+(\?|$)/.test(text))
    .map((text) => new URL(text, response.url).href)
  expect(named.length).toBeGreaterThan(1)
  for (const address of named) {
    const file = await fetch(address)
    expect([address, file.status]).toEqual([address, 200])
    await file.arrayBuffer()
  }
  return named
}

/** Reads a stream of events until one has the text. */
async function untilEvent(response: Response, text: string): Promise<void> {
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  let seen = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    seen += decoder.decode(chunk as Uint8Array, { stream: true })
    if (seen.includes(text)) return
  }
  throw new Error(`the stream ended without ${text}: ${seen}`)
}

describe.skipIf(!hasNginx)('below a path of the host', { tags: ['long'] }, () => {
  test('a shop connects, charges, and gets the payment by long-poll and by the event stream', async () => {
    const begun = await fetch(`${base}/oauth/login?client=acme`, { redirect: 'manual' })
    const consentAt = String(begun.headers.get('location'))
    expect(new URL(consentAt).searchParams.get('redirect_uri')).toBe(`${base}/oauth/callback`)
    const consent = await fetch(consentAt, {
      redirect: 'manual',
      headers: { 'x-sandbox-consent': 'approve' },
    })
    const back = String(consent.headers.get('location'))
    expect(back.startsWith(`${base}/oauth/callback?`)).toBe(true)
    for (const address of await openPage(back)) expect(address).toMatch(`${base}/shared/`)

    const { body: made } = await json(`${base}/api-keys`, admin, { client: 'acme' })
    const key = String(made.key)
    const store = { name: 'Centro', external_id: 'SUC-1', location }
    const pos = [{ name: 'Caja 1', external_id: 'CAJA-1' }]
    expect((await json(`${base}/stores`, key, { ...store, pos })).status).toBe(201)
    const { body: listed } = await json(`${base}/stores`, key)
    const [first] = listed.stores as { pos: { mp_pos_id: string }[] }[]
    const pace = { fetch_ms: 0, event_ms: 0 }
    await fetch(`${sandboxUrl}/_sandbox/pace`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(pace),
    })
    await json(`${sandboxUrl}/_sandbox/terminals`, '', {
      pos_id: first?.pos[0]?.mp_pos_id,
      user_id: made.mp_user_id,
      operating_mode: 'PDV',
    })
    const charge = { caja_id: 'CAJA-1', external_reference: 'T-1', amount: '100,00' }
    const { status, body: order } = await json(`${base}/orders`, key, charge)
    expect(status).toBe(201)

    const at = `${base}/orders/${order.order_id}`
    const { body: shown } = await json(at, key)
    const headers = { 'x-api-token': key, accept: 'text/event-stream' }
    const streamed = untilEvent(await fetch(`${base}/events`, { headers }), '"processed"')
    const waiting = json(`${at}?wait=30`, key)
    await json(`${sandboxUrl}/_sandbox/orders/${shown.mp_order_id}/act`, '', {
      do: 'pay',
      payment_method_type: 'debit_card',
      payment_method_id: 'debvisa',
    })
    await streamed
    let paid = await waiting
    while (paid.body.status !== 'processed') paid = await json(`${at}?wait=30`, key)
    expect(paid.status).toBe(200)
  }, 60_000)

  test('an invitation leads to its page and on to the provider', async () => {
    const { body } = await json(`${base}/admin/invitations`, admin, { client: 'invited' })
    const url = String(body.url)
    expect(url.startsWith(`${base}/oauth/invitation?`)).toBe(true)
    await openPage(url)
    const page = await (await fetch(url, { headers: browser })).text()
    const action = /<form method="post" action="([^"]+)"/.exec(page)?.[1] ?? ''
    expect(new URL(action, url).href).toBe(`${base}/oauth/invitation`)
    const sent = await fetch(new URL(action, url), {
      method: 'POST',
      headers: { ...browser, origin: new URL(base).origin, 'sec-fetch-site': 'same-origin' },
      body: new URL(url).searchParams,
    })
    expect(sent.status).toBe(200)
    const old = await fetch(`${base}/oauth/login${new URL(url).search}&redirect=false`)
    expect(((await old.json()) as { url: string }).url).toMatch(`${base}/oauth/invitation?`)
  })

  test.each(['shortened', 'as it came', ...(hasCaddy ? ['by Caddy'] : [])])(
    'the pages, the documentation and the flows are there, paths handed on %s',
    async (way) => {
      const host = ways[way]
      for (const page of [
        '/caja/dashboard',
        '/caja/dashboard/',
        '/caja/docs/',
        '/caja/guide',
        '/flujos/admin',
        '/flujos/guide',
      ]) {
        const prefix = page.slice(0, page.indexOf('/', 1))
        for (const address of await openPage(`${host}${page}`)) {
          expect(address).toMatch(`${host}${prefix}/`)
        }
      }
      const bare = await fetch(`${host}/caja/`, { headers: browser, redirect: 'manual' })
      expect(bare.headers.get('location')).toMatch(/(^|:\d+)\/caja\/dashboard$/)
      for (const [prefix, token] of [
        ['/caja', admin],
        ['/flujos', syncToken],
      ] as const) {
        const { body } = await json(`${host}${prefix}/openapi.json`, token)
        expect((body.servers as { url: string }[])[0]?.url).toBe(prefix)
        expect((await json(`${host}${prefix}/health`, token)).status).toBe(200)
      }
      expect((await json(`${host}/flujos/flows`, syncToken)).status).toBe(200)
      const events = await fetch(`${host}/flujos/flows/events`, {
        headers: { 'x-api-token': syncToken },
      })
      await untilEvent(events, 'event: resync')
      expect((await json(`${host}/flujos/flows`, 'x'.repeat(32))).status).toBe(401)
    },
    30_000,
  )

  test('a request to the listener itself needs no prefix', async () => {
    expect((await json(`${running?.url}/health`, admin)).status).toBe(200)
    await openPage(`${running?.url}/dashboard`).then((named) => {
      for (const address of named) expect(address).toContain('/caja/')
    })
  })
})

if (!hasNginx) process.stderr.write('skipped: nginx is not installed\n')
else if (!hasCaddy) process.stderr.write('skipped by Caddy: it is not installed\n')
