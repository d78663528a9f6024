import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestDatabase } from '../support/database.ts'
import { adminToken } from '../support/service.ts'
import { describe, runCampaign } from './campaign.ts'
import { type RawDocument, readDocument } from './document.ts'
import { createJudge } from './judge.ts'
import { type Answer, createSender } from './send.ts'
import { type ListenerName, openWorld, type World } from './world.ts'

/** The short form of `npm run fuzz`: the same requests each time. */
const seed = 20261122
const requests = 300

let world: World
let closeDatabase = async () => {}
beforeAll(async () => {
  const database = await openTestDatabase()
  closeDatabase = database.close
  world = await openWorld(database)
})
afterAll(async () => {
  await world.stop()
  await closeDatabase()
})

test.each<ListenerName>(['payment', 'control'])(
  'every answer of the %s listener to generated requests of every caller is one that its document lists',
  async (listener) => {
    const campaign = await runCampaign(world, listener, { requests, seed })
    const again = `again: npm run fuzz -- --listener ${listener} --requests ${requests} --seed ${seed}`
    expect(campaign.findings.map(describe).join('\n'), again).toBe('')
    expect(campaign.requests).toBe(requests)
    // Answers of every kind came, so that the comparison means something.
    const statuses = new Set(
      [...campaign.statuses.values()].flatMap((counts) => [...counts.keys()]),
    )
    expect([...statuses]).toEqual(expect.arrayContaining([200, 400, 401, 404, 413, 415]))
  },
  120_000,
)

test('the judge passes an answer as it is, and none that breaks a promise of the document', async () => {
  const url = world.urls.payment
  const served = (await (await fetch(`${url}/openapi.json`)).json()) as RawDocument
  const judge = createJudge(readDocument(served), 'coded', world.canaries)
  const sender = createSender(world, url)
  const ask = async (target: string) => {
    const answer = await sender.send({ caller: 'own key', method: 'GET', target, headers: {} })
    if (!answer) throw new Error('no answer')
    return answer
  }
  const [stores, missing] = [await ask('/stores'), await ask('/stores/NONE')]
  await sender.close()
  const kinds = (target: string, answer: Answer, change: Partial<Answer> = {}) =>
    judge('GET', target, { ...answer, ...change }).map(({ kind }) => kind)
  const without = (answer: Answer, name: string) => {
    const { [name]: _, ...headers } = answer.headers
    return { headers }
  }

  expect([kinds('/stores', stores), kinds('/stores/NONE', missing)]).toEqual([[], []])
  const { stores: list } = JSON.parse(stores.body)
  const more = JSON.stringify({ stores: [{ ...list[0], secret: 'x' }] })
  const otherCode = missing.body.replace('NOT_FOUND', 'TERMINAL_NOT_FOUND')
  const cases: [Partial<Answer>, Answer, string, string][] = [
    [{ status: 500 }, stores, '/stores', 'status 500'],
    [{ status: 418 }, stores, '/stores', 'status 418'],
    [{ body: more }, stores, '/stores', 'body of 200'],
    [{ body: '{}' }, stores, '/stores', 'body of 200'],
    [{ body: 'no JSON' }, stores, '/stores', 'body of 200'],
    [{ body: '{"error":"x"}' }, missing, '/stores/NONE', 'body of 404'],
    [{ body: otherCode }, missing, '/stores/NONE', 'code TERMINAL_NOT_FOUND'],
    [{ status: 429 }, missing, '/stores/NONE', 'no retry-after of 429'],
    [{}, stores, '/no/route', 'status 200 of no route'],
    [{ body: stores.body.replace('SUC-1', adminToken) }, stores, '/stores', 'a secret'],
    [
      { body: stores.body.replace('SUC-1', `mk_${'a'.repeat(64)}`) },
      stores,
      '/stores',
      'the shape of a secret',
    ],
    [
      { headers: { ...stores.headers, 'content-type': 'text/html' } },
      stores,
      '/stores',
      'type text/html of 200',
    ],
    [
      without(stores, 'content-security-policy'),
      stores,
      '/stores',
      'header content-security-policy',
    ],
    [without(stores, 'x-content-type-options'), stores, '/stores', 'header x-content-type-options'],
  ]
  for (const [change, answer, target, kind] of cases) {
    expect(kinds(target, answer, change), kind).toContain(kind)
  }
})
