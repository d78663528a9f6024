import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { openDatabase } from '../../src/db/open-database.ts'
import { expectContinuousSpans } from '../closings/check-spans.ts'
import { prepareData } from '../support/pglite-template.ts'
import { rounds } from '../support/rounds.ts'
import { location } from '../support/till.ts'
import { adminTokenOf, freePort, type RealProcess, startService } from './real-process.ts'

let running: RealProcess | undefined
let dataDir: string | undefined

afterAll(async () => {
  running?.child.kill('SIGKILL')
  await running?.ended
  if (dataDir) await rm(dataDir, { recursive: true, force: true })
})

const minuteMs = 60_000

async function json(
  url: string,
  token: string | undefined,
  body?: object,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(token !== undefined && { 'x-api-token': token }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

/** A connected client with a key and a box; answers the key. */
async function openShop(url: string, admin: string): Promise<string> {
  const login = await fetch(`${url}/oauth/login?client=acme`, { redirect: 'manual' })
  const consent = await fetch(String(login.headers.get('location')), {
    redirect: 'manual',
    headers: { 'x-sandbox-consent': 'approve' },
  })
  await (await fetch(String(consent.headers.get('location')))).text()
  const { body } = await json(`${url}/api-keys`, admin, { client: 'acme' })
  const store = await json(`${url}/stores`, String(body.key), {
    name: 'Centro',
    external_id: 'SUC-1',
    location,
    pos: [{ name: 'Caja 1', external_id: 'CAJA-1' }],
  })
  expect(store.status).toBe(201)
  return String(body.key)
}

/** What the files of the killed process hold: the closings as they are, and how often the audit log has each signed. */
async function lookInto(folder: string) {
  const database = await openDatabase({ dataDir: folder })
  try {
    const { db } = database
    const closings = await db.selectFrom('closings').selectAll().orderBy('number').execute()
    const entries = await db
      .selectFrom('activity_log')
      .select(['resource_id'])
      .where('action', '=', 'closing.signed')
      .where('status', '=', 'success')
      .execute()
    // The leases of the killed process last for a while; the test ends them.
    await db.deleteFrom('leases').execute()
    return { closings, entries: entries.map(({ resource_id }) => resource_id) }
  } finally {
    await database.close()
  }
}

test(`a process that is killed while it closes and signs leaves closings without overlap or gap, and nothing signed changes`, {
  tags: ['night'],
}, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-closings-'))
  dataDir = folder
  await prepareData(folder)
  const env = {
    DATA_DIR: folder,
    PORT: String(await freePort()),
    SANDBOX_PORT: String(await freePort()),
    SYNC_PORT: '0',
    POS_CREATE_DELAY_MS: '0',
    SEARCH_LAG_MS: '0',
  }
  running = await startService(env)
  const key = await openShop(running.url, await adminTokenOf(folder))
  const beganMs = Date.now() - 20 * 3_600_000
  let span = 0

  /** Closes and signs one minute of the day after the other, until the process ends. */
  const closeOn = async (url: string) => {
    for (;;) {
      const from = beganMs + span * minuteMs
      const opened = await json(`${url}/closings`, key, {
        caja_id: 'CAJA-1',
        from: new Date(from).toISOString(),
        to: new Date(from + minuteMs).toISOString(),
      })
      const at = `${url}/closings/${opened.body.id}`
      let state = opened.body.state
      while (state === 'open' || state === 'checking') {
        await wait(10)
        state = (await json(at, key)).body.state
      }
      if ((await json(`${at}/sign`, key, {})).status === 200) span += 1
    }
  }

  const signed = new Map<string, string>()
  const kills = rounds(4)
  for (let kill = 0; kill < kills; kill += 1) {
    const { url, child, ended } = running
    const working = closeOn(url).catch(() => undefined)
    // Anywhere between the first request and some closings later.
    await wait(20 + ((kill * 397) % 1_500))
    child.kill('SIGKILL')
    await ended
    await working
    const { closings, entries } = await lookInto(folder)
    expectContinuousSpans(closings)
    for (const closing of closings.filter(({ state }) => state === 'signed')) {
      const row = JSON.stringify(closing)
      expect(row).toBe(signed.get(closing.id) ?? row)
      signed.set(closing.id, row)
    }
    expect([...signed.keys()].sort()).toEqual(
      closings.flatMap(({ id, state }) => (state === 'signed' ? [id] : [])).sort(),
    )
    expect(entries.toSorted()).toEqual([...signed.keys()].sort())
    running = await startService(env)
  }
  expect(signed.size).toBeGreaterThan(0)
  const { body } = await json(`${running.url}/admin/activity/verify`, await adminTokenOf(folder))
  expect(body).toMatchObject({ valid: true })
})
// Each kill is followed by a start, on whatever machine.
