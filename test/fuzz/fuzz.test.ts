/** @module-tag long */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestDatabase } from '../support/database.ts'
import { adminToken } from '../support/service.ts'
import { createAnswerCheck } from './answer-check.ts'
import { describe, runCampaign } from './campaign.ts'
import { type RawDocument, readDocument } from './document.ts'
import { type FuzzTestbed, type ListenerName, openTestbed } from './fuzz-testbed.ts'
import { type Answer, createSender } from './send.ts'

/** The short form of `npm run fuzz`: the same requests each time. */
const seed = 20261122
const requests = 300

let testbed: FuzzTestbed
let closeDatabase = async () => {}
beforeAll(async () => {
  const database = await openTestDatabase()
  closeDatabase = database.close
  testbed = await openTestbed(database)
})
afterAll(async () => {
  await testbed.stop()
  await closeDatabase()
})

test.each<ListenerName>(['payment', 'control'])(
  'every answer of the %s listener to generated requests of every caller is one that its document lists',
  async (listener) => {
    const campaign = await runCampaign(testbed, listener, { requests, seed })
    const again = `again: npm run fuzz -- --listener ${listener} --requests ${requests} --seed ${seed}`
    expect(campaign.findings.map(describe).join('\n'), again).toBe('')
    expect(campaign.requests).toBe(requests)
    // The run must have answers of every kind.
    const statuses = new Set(
      [...campaign.statuses.values()].flatMap((counts) => [...counts.keys()]),
    )
    expect([...statuses]).toEqual(expect.arrayContaining([200, 400, 401, 404, 413, 415]))
  },
  120_000,
)

test('the check accepts a correct answer, and reports each that breaks a rule of the document', async () => {
  const url = testbed.urls.payment
  const served = (await (await fetch(`${url}/openapi.json`)).json()) as RawDocument
  const check = createAnswerCheck(readDocument(served), 'coded', testbed.canaries)
  const sender = createSender(testbed, url)
  const ask = async (target: string) => {
    const answer = await sender.send({ caller: 'own key', method: 'GET', target, headers: {} })
    if (!answer) throw new Error('no answer')
    return answer
  }
  const [stores, missing] = [await ask('/stores'), await ask('/stores/NONE')]
  await sender.close()
  const kinds = (target: string, answer: Answer, change: Partial<Answer> = {}) =>
    check('GET', target, { ...answer, ...change }).map(({ kind }) => kind)
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
