import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin } from '../support/till.ts'

let service: TestService
let target: TestTarget
/** Most tests share one flow side, each with a flow of its own. */
let shared: TestFlows
/** Those of the running test alone: a stopped one gives its database to the next. */
const own: TestFlows[] = []

beforeAll(async () => {
  service = await startTestService()
  target = await startTarget()
  shared = await startTestFlows({ service })
})
afterEach(async () => {
  for (const flows of own.splice(0)) await flows.stop()
})
afterAll(async () => {
  await shared.stop()
  await target.close()
  await service.stop()
})

let serial = 0

/** A flow of its own in the shared folder, paused. */
async function start(
  items: object[],
  extra: Record<string, unknown> = {},
): Promise<{ flows: TestFlows; name: string }> {
  serial += 1
  const name = `flow${serial}`
  await shared.write(`${name}.json`, items)
  await shared.write(`${name}.flow.yaml`, jsonFlow(name, target.url, extra))
  await shared.flows.reload('test')
  return { flows: shared, name }
}

/** A flow alone, for what concerns all flows or a restart: on a service of its own, since one flow side leads a database. */
async function startAlone(
  items: object[],
  options: { extra?: Record<string, unknown>; env?: Record<string, string> } = {},
): Promise<{ flows: TestFlows; name: string; restart(): Promise<TestFlows> }> {
  serial += 1
  const name = `flow${serial}`
  const flows = await startTestFlows({
    files: {
      [`${name}.flow.yaml`]: jsonFlow(name, target.url, options.extra),
      [`${name}.json`]: items,
    },
    ...(options.env && { env: options.env }),
  })
  own.push(flows)
  const restart = async () => {
    const again = await flows.restart()
    own.splice(own.indexOf(flows), 1, again)
    return again
  }
  return { flows, name, restart }
}

const status = async (flows: TestFlows, name: string) =>
  (await flows.call('GET', '/flows/status')).json()[name]
const post = async (flows: TestFlows, url: string) => (await flows.call('POST', url)).json()
const failedOf = async (flows: TestFlows, name: string) => {
  const card = (await flows.flows.cards()).find((one) => one.name === name)
  return card?.destinations[0]?.failed
}
const got = (name: string) => target.received.filter(({ path }) => path.startsWith(`/${name}/`))

test('a paused flow is not polled by sync unless it is forced', async () => {
  const { flows, name } = await start([{ id: '1' }])
  expect(await post(flows, `/sync/${name}`)).toEqual({ name, changes: 0, skipped: 'paused' })
  expect(await post(flows, `/sync/${name}?force=true`)).toEqual({ name, changes: 1 })
  await flows.delivered()
  expect(got(name).map(({ method, path, body }) => [method, path, body])).toEqual([
    ['PUT', `/${name}/1`, { id: '1' }],
  ])
  expect(await post(flows, `/sync/${name}?force=true`)).toEqual({ name, changes: 0 })
})

test('a running flow polls at once, then at its interval', { tags: ['long'] }, async () => {
  const { flows, name } = await start([{ id: '1' }], {
    startPaused: false,
    pollInterval: '1s',
  })
  await expect.poll(() => got(name).length, { timeout: 10_000 }).toBe(1)
  await flows.write(`${name}.json`, [{ id: '1' }, { id: '2' }])
  service.clock.advance(1_000)
  await expect.poll(() => got(name).length, { timeout: 10_000 }).toBe(2)
})

test('a pause survives a restart, with its author and reason; resume polls at once', {
  tags: ['long'],
}, async () => {
  const { flows, name, restart } = await startAlone([{ id: '1' }], {
    extra: { startPaused: false },
  })
  await flows.call('POST', `/flow/${name}/pause`, { body: { reason: 'stocktaking' } })
  const again = await restart()
  expect(await status(again, name)).toMatchObject({ paused: true, reason: 'stocktaking' })
  await again.write(`${name}.json`, [{ id: '1' }, { id: 'new' }])
  expect(await post(again, `/flow/${name}/resume`)).toEqual({ name, status: 'running' })
  expect(await status(again, name)).toMatchObject({ paused: false, reason: null })
  await expect.poll(() => got(name).some(({ path }) => path.endsWith('/new'))).toBe(true)
})

test('a limit counts runs from zero, pauses with the last, and ends with resume', async () => {
  const { flows, name } = await start([{ id: '1' }])
  expect(await post(flows, `/flow/${name}/limit/2`)).toEqual({
    name,
    runLimit: 2,
    status: 'limited',
  })
  expect(await status(flows, name)).toMatchObject({ paused: true, runLimit: 2, runCount: 0 })
  await post(flows, `/flow/${name}/resume`)
  await expect.poll(async () => (await status(flows, name)).runCount, { timeout: 10_000 }).toBe(1)
  await post(flows, `/sync/${name}`)
  expect(await status(flows, name)).toMatchObject({ paused: true, runLimit: 2, runCount: 2 })
  expect(await post(flows, `/sync/${name}`)).toMatchObject({ skipped: 'paused' })
  await post(flows, `/flow/${name}/resume`)
  expect(await status(flows, name)).toMatchObject({ paused: false, runLimit: null, runCount: 0 })
})

test('removing a limit leaves the pause as it is', async () => {
  const { flows, name } = await start([])
  await post(flows, `/flow/${name}/limit/5`)
  const paused = await flows.call('DELETE', `/flow/${name}/limit`)
  expect(paused.json()).toEqual({ name, runLimit: null, status: 'paused' })
  await post(flows, `/flow/${name}/resume`)
  const runs = await flows.call('DELETE', `/flow/${name}/limit`)
  expect([runs.statusCode, runs.json()]).toEqual([200, { name, runLimit: null, status: 'running' }])
})

test('a restart removes a limit and keeps the pause that it caused', {
  tags: ['long'],
}, async () => {
  const { flows, name, restart } = await startAlone([{ id: '1' }])
  await post(flows, `/flow/${name}/limit/1`)
  await post(flows, `/sync/${name}?force=true`)
  expect(await status(flows, name)).toMatchObject({ paused: true, runLimit: 1, runCount: 1 })
  const again = await restart()
  expect(await status(again, name)).toMatchObject({ paused: true, runLimit: null, runCount: 0 })
})

test('the answer to pause and resume of all flows names the flows', {
  tags: ['long'],
}, async () => {
  const { flows, name } = await startAlone([])
  expect(await post(flows, '/flows/resume')).toEqual({ status: 'running', flows: [name] })
  expect(await post(flows, '/flows/pause')).toEqual({ status: 'paused', flows: [name] })
  expect(await status(flows, name)).toMatchObject({ paused: true })
})

test('FLOWS_START_PAUSED pauses every flow at the start', { tags: ['long'] }, async () => {
  const { flows, name } = await startAlone([{ id: '1' }], {
    extra: { startPaused: false },
    env: { FLOWS_START_PAUSED: 'true' },
  })
  expect(await status(flows, name)).toMatchObject({ paused: true, reason: 'FLOWS_START_PAUSED' })
})

test('a flow that is paused before the first start does not poll', async () => {
  const { db } = service.database
  await sql`insert into flow_pause (flow) values ('early')`.execute(db)
  await shared.write('early.json', [{ id: '1' }])
  const file = jsonFlow('early', target.url, { startPaused: false })
  await shared.write('early.flow.yaml', file)
  await shared.flows.reload('test')
  expect(await post(shared, '/sync/early')).toMatchObject({ skipped: 'paused' })
  expect(await status(shared, 'early')).toMatchObject({ paused: true, reason: null })
  expect(got('early')).toEqual([])
})

test('changes of the ERP while a new mapping is asked about are sent after any answer, and by keep nothing else is', {
  tags: ['long'],
}, async () => {
  const { flows, name } = await start([
    { id: '1', price: 1 },
    { id: '2', price: 1 },
  ])
  await post(flows, `/flow/${name}/resume`)
  await expect.poll(() => got(name).length).toBe(2)
  await flows.delivered()
  const { destinations } = jsonFlow(name, target.url) as { destinations: object[] }
  const mapped = destinations.map((one) => ({ ...one, fields: { sku: 'id', precio: 'price' } }))
  await flows.write(`${name}.flow.yaml`, jsonFlow(name, target.url, { destinations: mapped }))
  await flows.flows.reload('test')
  const question = async () => (await flows.call('GET', `/flow/${name}/question`)).json()
  await expect.poll(question).toMatchObject({ state: 'asked' })
  await flows.write(`${name}.json`, [
    { id: '1', price: 1 },
    { id: '2', price: 9 },
  ])
  expect(await post(flows, `/sync/${name}`)).toMatchObject({
    changes: 1,
    why: { code: 'DEFINITION_CHANGED' },
  })
  const { number } = await question()
  await flows.call('POST', `/flow/${name}/question`, { body: { number, answer: 'keep' } })
  await expect.poll(() => got(name).length).toBe(3)
  await flows.delivered()
  expect(got(name).slice(2)).toMatchObject([{ body: { sku: '2', precio: 9 } }])
})

test('a flow without its file is paused, and continues where it was when the file is back', {
  tags: ['long'],
}, async () => {
  const { flows, name, restart } = await startAlone([{ id: '1' }], {
    extra: { startPaused: false },
  })
  await expect.poll(() => got(name).length).toBe(1)
  await flows.remove(`${name}.flow.yaml`)
  await flows.flows.reload('test')
  expect((await flows.call('POST', `/sync/${name}`)).statusCode).toBe(404)
  const { db } = flows.service.database
  const pause = () => db.selectFrom('flow_pause').selectAll().where('flow', '=', name).execute()
  expect(await pause()).toMatchObject([{ paused_by: 'service', reason: 'definition missing' }])

  // A folder that was not mounted at the start must not leave the flows stopped.
  await flows.write(`${name}.flow.yaml`, jsonFlow(name, target.url, { startPaused: false }))
  await flows.write(`${name}.json`, [{ id: '1' }, { id: '2' }])
  const again = await restart()
  expect(await status(again, name)).toMatchObject({ paused: false, reason: null })
  await expect.poll(() => got(name).length).toBe(2)
})

test('a pause by an operator survives the removal and return of the file', {
  tags: ['long'],
}, async () => {
  const { flows, name } = await startAlone([])
  await flows.call('POST', `/flow/${name}/pause`, { body: { reason: 'stocktaking' } })
  await post(flows, `/flow/${name}/resume`)
  await flows.call('POST', `/flow/${name}/pause`, { body: { reason: 'stocktaking' } })
  await flows.remove(`${name}.flow.yaml`)
  await flows.flows.reload('test')
  await flows.write(`${name}.flow.yaml`, jsonFlow(name, target.url))
  await flows.flows.reload('test')
  expect(await status(flows, name)).toMatchObject({ paused: true, reason: 'stocktaking' })
})

test('reset sends everything again with the next poll, resync at once', {
  tags: ['long'],
}, async () => {
  const { flows, name } = await start([{ id: '1' }, { id: '2' }])
  await post(flows, `/sync/${name}?force=true`)
  const reset = await flows.call('DELETE', `/reset/${name}`)
  expect(reset.json()).toEqual({ name, status: 'reset' })
  const { flows: cards } = (await flows.call('GET', '/flows')).json()
  expect(cards.find((card: { name: string }) => card.name === name)).toMatchObject({ items: 0 })
  expect(await post(flows, `/sync/${name}?force=true`)).toEqual({ name, changes: 2 })
  expect(await post(flows, `/resync/${name}?force=true`)).toEqual({
    name,
    status: 'reset',
    changes: 2,
  })
  expect(await post(flows, `/resync/${name}`)).toEqual({
    name,
    status: 'reset',
    changes: 0,
    skipped: 'paused',
  })
  expect(await post(flows, `/sync/${name}?force=true`)).toEqual({ name, changes: 2 })
})

const hostileKeys = [
  'a/b c',
  '100%%2F',
  'ñandú 日本',
  'a|b\\c',
  '../../etc',
  '<script>"quoted"',
  'a.b+c&d=e?f#g',
]

test('T47: keys of any characters are synced, reset and resynced one by one', {
  tags: ['long'],
}, async () => {
  const { flows, name } = await start(hostileKeys.map((id) => ({ id })))
  await post(flows, `/sync/${name}?force=true`)
  for (const id of hostileKeys) {
    // In a key a pipe and a backslash are escaped, since a pipe joins the parts of composite keys.
    const pk = id.replace(/[\\|]/g, '\\$&')
    const path = encodeURIComponent(pk)
    const same = await post(flows, `/sync/${name}/${path}`)
    expect(same).toEqual({ name, pk, found: true, changed: false, jobs: 0 })
    const reset = await flows.call('DELETE', `/reset/${name}/${path}`)
    expect(reset.json()).toEqual({ name, pk, status: 'reset', existed: true })
    const changed = await post(flows, `/sync/${name}/${path}`)
    expect(changed).toEqual({ name, pk, found: true, changed: true, jobs: 1 })
    expect(await post(flows, `/resync/${name}/${path}?force=true`)).toEqual({
      name,
      pk,
      status: 'reset',
      changes: 1,
    })
  }
})

test('sync of an item that the source does not have is 404; reset of an unknown item is no error', async () => {
  const { flows, name } = await start([{ id: '1' }])
  expect(await post(flows, `/sync/${name}/unknown`)).toEqual({
    name,
    pk: 'unknown',
    found: false,
    changed: false,
    jobs: 0,
  })
  const reset = await flows.call('DELETE', `/reset/${name}/unknown`)
  expect([reset.statusCode, reset.json()]).toEqual([
    200,
    { name, pk: 'unknown', status: 'reset', existed: false },
  ])
})

test('a composite key is joined with a pipe', async () => {
  const { flows, name } = await start([{ store: 'S|1', box: '2' }], {
    item: { key: ['store', 'box'] },
  })
  const pk = 'S\\|1|2'
  expect(await post(flows, `/sync/${name}/${encodeURIComponent(pk)}`)).toMatchObject({
    pk,
    found: true,
    changed: true,
  })
})

test('a failed item is reported, counted, and sent again by retry and by its sync', async () => {
  const { flows, name } = await start([{ id: '1' }, { id: '2' }])
  target.answer(({ path }) => (path.startsWith(`/${name}/`) ? 422 : 200))
  await post(flows, `/sync/${name}?force=true`)
  await expect.poll(() => failedOf(flows, name)).toBe(2)
  const [error] = (await flows.call('GET', `/errors?flow=${name}`)).json()
  expect(error).toMatchObject({ entity: name, adapter: 'web', attempts: 1 })
  expect(error.error).toContain('422')
  target.answer(200)
  expect(await post(flows, `/sync/${name}/1`)).toEqual({
    name,
    pk: '1',
    found: true,
    changed: false,
    jobs: 1,
  })
  const retried = await flows.call('POST', `/flow/${name}/retry`, { body: {} })
  expect(retried.json()).toEqual({ name, retried: 1 })
  await flows.delivered()
  await expect.poll(() => failedOf(flows, name)).toBe(0)
  // After a definite refusal a person's retry is another request.
  const keys = new Set(got(name).map(({ headers }) => headers['idempotency-key']))
  expect(keys.size).toBe(4)
})

test('two syncs of one flow share the next poll and do not overlap', async () => {
  const { flows, name } = await start([{ id: '1' }])
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => post(flows, `/sync/${name}?force=true`)),
  )
  expect(answers.filter(({ changes }) => changes === 1)).toHaveLength(1)
  const { totalRuns } = (await flows.call('GET', '/metrics')).json()[name]
  expect(totalRuns).toBe(2)
})

test('metrics exist before the first poll and survive a restart', { tags: ['long'] }, async () => {
  const { flows, name, restart } = await startAlone([{ id: '1' }])
  expect((await flows.call('GET', '/metrics')).json()[name]).toEqual({
    lastRun: null,
    avgDuration: 0,
    p95Duration: 0,
    totalRuns: 0,
    totalErrors: 0,
  })
  await post(flows, `/sync/${name}?force=true`)
  const again = await restart()
  expect((await again.call('GET', '/metrics')).json()[name]).toMatchObject({
    totalRuns: 1,
    lastRun: expect.any(String),
  })
})

test('a reload applies new and changed files, keeps the running flows when a file is invalid, and pauses removed ones', {
  tags: ['long'],
}, async () => {
  const { flows, name } = await startAlone([{ id: '1' }])
  await flows.write('more.flow.yaml', jsonFlow(`${name}-more`, target.url))
  expect(await post(flows, '/flows/reload')).toEqual({
    flows: [name, `${name}-more`],
    problems: [],
  })

  await flows.write(`${name}.flow.yaml`, { ...jsonFlow(name, target.url), pollIntervall: '1m' })
  const bad = await post(flows, '/flows/reload')
  expect(bad.flows).toContain(name)
  expect(bad.problems).toMatchObject([{ file: `${name}.flow.yaml`, key: 'pollIntervall' }])
  expect((await post(flows, `/sync/${name}?force=true`)).changes).toBe(1)

  await flows.write(`${name}.flow.yaml`, jsonFlow(name, target.url))
  await flows.remove('more.flow.yaml')
  expect((await post(flows, '/flows/reload')).flows).toEqual([name])
  expect((await flows.call('POST', `/sync/${name}-more`)).statusCode).toBe(404)
  await flows.write('more.flow.yaml', jsonFlow(`${name}-more`, target.url))
  await post(flows, '/flows/reload')
  expect(await status(flows, `${name}-more`)).toMatchObject({ paused: true })
})

test('an invalid file at the start is reported, and the other flows run', {
  tags: ['long'],
}, async () => {
  const { flows, name, restart } = await startAlone([{ id: '1' }])
  await flows.write('bad.flow.yaml', 'version: 1\nname: [')
  const again = await restart()
  const view = (await again.call('GET', '/flows')).json()
  expect(view.flows.map((flow: { name: string }) => flow.name)).toEqual([name])
  expect(view.problems).toMatchObject([{ file: 'bad.flow.yaml', line: expect.any(Number) }])
  expect(again.logLines.some((line) => line.includes('bad.flow.yaml'))).toBe(true)
})

test('the service stores who did what', async () => {
  const { flows, name } = await start([])
  await post(flows, `/flow/${name}/limit/7`)
  await flows.call('DELETE', `/reset/${name}`)
  await post(flows, `/sync/${name}?force=true`)
  await post(flows, `/sync/${name}`)
  await post(flows, `/sync/${name}/A-1`)
  const { activity } = (await flows.call('GET', `/flows/activity?flow=${name}`)).json()
  expect(activity.map((entry: { action: string }) => entry.action)).toEqual([
    'item synced',
    'synced',
    'reset',
    'limited',
    'paused',
  ])
  expect(activity[0]).toMatchObject({ flow: name, actor: '127.0.0.1', detail: 'A-1' })
  expect(activity[1]).toMatchObject({ actor: '127.0.0.1', detail: '0 changes' })
})

test('every action on a flow is an entry of the audit log, with its author', {
  tags: ['long'],
}, async () => {
  const { flows, name } = await start([])
  const before = (await asAdmin(service, { url: '/admin/activity?limit=1' })).json().logs[0]
  await flows.call('POST', `/flow/${name}/pause`, { body: { reason: 'stocktaking, row 7' } })
  await post(flows, `/flow/${name}/resume`)
  await post(flows, `/flow/${name}/limit/7`)
  await flows.call('DELETE', `/flow/${name}/limit`)
  await flows.call('DELETE', `/reset/${name}`)
  await flows.call('DELETE', `/reset/${name}/A-1`)
  await post(flows, `/sync/${name}?force=true`)
  await post(flows, `/sync/${name}/A-1`)
  await post(flows, `/resync/${name}?force=true`)
  await post(flows, `/flow/${name}/retry`)
  await flows.flows.reload('SIGHUP')
  const { logs } = (await asAdmin(service, { url: '/admin/activity?limit=30' })).json()
  const added = logs.slice(
    0,
    logs.findIndex(({ id }: { id: string }) => id === before?.id),
  )
  expect(added.map(({ action }: { action: string }) => action).toReversed()).toEqual([
    'flow.paused',
    'flow.resumed',
    'flow.limited',
    'flow.limit_removed',
    'flow.reset',
    'flow.item_reset',
    'flow.synced',
    'flow.item_synced',
    'flow.reset',
    'flow.retried',
    'flow.reloaded',
  ])
  expect(added.at(-1)).toMatchObject({
    client_name: null,
    ip_address: '127.0.0.1',
    resource_type: 'flow',
    resource_id: name,
    status: 'success',
    metadata: { detail: 'stocktaking, row 7' },
  })
  expect(added[0]).toMatchObject({
    ip_address: null,
    resource_id: null,
    metadata: { by: 'SIGHUP' },
  })
  await service.chain.sealAll()
  expect((await asAdmin(service, { url: '/admin/activity/verify' })).json().valid).toBe(true)
})

test('a change that cannot be audited is not made', async () => {
  const { flows, name } = await start([])
  const { db } = service.database
  await db.schema.alterTable('activity_unsealed').renameTo('unsealed_away').execute()
  const answer = await flows.call('POST', `/flow/${name}/resume`)
  await db.schema.alterTable('unsealed_away').renameTo('activity_unsealed').execute()
  expect(answer.statusCode).toBe(500)
  expect(await status(flows, name)).toMatchObject({ paused: true })
})
