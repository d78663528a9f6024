import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { identitiesOf } from '../../src/flows/definition/identity.ts'
import { type Flow, flowSchema } from '../../src/flows/definition/schema.ts'
import {
  definitionHash,
  destinationForms,
  itemFormHash,
  keyFormHash,
} from '../../src/flows/item/definition-hash.ts'
import type { FlowRuntime } from '../../src/flows/item/flow-runtime.ts'
import { createItemReader } from '../../src/flows/item/item.ts'
import { usedFieldsOf } from '../../src/flows/poll/missing-fields.ts'
import { pauseFlows, resumeFlows } from '../../src/flows/poll/pauses-and-limits.ts'
import { pollOnce } from '../../src/flows/poll/poll.ts'
import type { DeliveryJob, DeliveryResult, Source } from '../../src/flows/types.ts'
import { withLease } from '../../src/jobs/with-lease.ts'
import {
  adoptIdentities,
  insertFlowState,
  requireFlowState,
  updateFlowState,
} from '../../src/repositories/flows/flow-state.ts'
import { openTestDatabase } from '../support/database.ts'
import { seedOfModel, timesAsMany } from '../support/rounds.ts'
import { down, invalid, receiver } from './deliver-support.ts'
import { audit, silentLog } from './poll-support.ts'
import { ended, follow, startProcess, type TestProcess } from './test-process.ts'

/**
 * Random histories of two flows that write columns of the same rows, against a model of the shop: no delete takes a row of an item
 * that a flow still has, what a flow has is there in the end, and what no flow has any more is gone.
 */
let database: Database
let own: TestProcess
let serial = 0
const now = () => new Date()

beforeAll(async () => {
  database = await openTestDatabase()
  own = await startProcess(database)
})
afterAll(async () => {
  await own.service.stop()
  await database.close()
})

const schema = flowSchema({
  env: { DB: 'postgres://me:secret@db.example/shop' },
  readFile: () => '',
  mail: { smtpUrl: undefined, mailFrom: undefined },
})

function flowOf(name: string, table: string, deletes: boolean): Flow {
  const flow = schema.parse({
    ...{ version: 1, name, pollInterval: '1h' },
    source: { type: 'file', path: './x.json', format: 'json' },
    item: { key: 'id' },
    deletes: {
      mode: deletes ? 'delete' : 'ignore',
      guard: { maxPercent: 100, minItems: 1_000, emptySource: 'allow' },
    },
    destinations: [
      {
        ...{ name: 'shop', type: 'sql', driver: 'postgres', url: `\${env:DB}`, table },
        ...{ upsertKey: ['sku'], fields: { sku: 'sku', value: 'value' }, breaker: false },
      },
    ],
  })
  for (const one of flow.destinations) {
    Object.assign(one.retry, { attempts: 2, initialMs: 1, maxMs: 1, jitter: 0 })
  }
  return flow
}

const ids = ['1', '2', '3']
const which = fc.constantFrom('first', 'second')
const anId = fc.constantFrom(...ids)
const aCode = fc.nat(2)
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      ...{ do: fc.constant('put'), of: which, id: anId, code: aCode, value: fc.nat(3) },
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('remove'), of: which, id: anId }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove from both'), id: anId }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('move'), of: which, id: anId }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('take over'), of: which, id: anId, by: anId }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('poll'), of: which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pause'), of: which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('resume'), of: which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart'), of: which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('try'), of: which }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('kill'), nth: fc.integer({ min: 1, max: 40 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('weather'),
      is: fc.constantFrom('fine', 'refuses', 'silent', 'lost'),
    }),
  },
)
type Step = { do: string } & Record<string, unknown>

type Row = { id: string; sku: string; value: number }
/** What the flows wrote into a row, and the items that are there. `isLeft`: an item took another code, which deletes nothing. */
type ShopRow = { values: Map<string, number>; items: Set<string>; isLeft: boolean }

type Rules = { secondDeletes: boolean; folds: boolean }

/** Two flows, their sources and their shop. */
async function createWorld({ secondDeletes, folds }: Rules) {
  serial += 1
  const table = `shared_${process.pid}_${serial}`
  const shop = new Map<string, ShopRow>()
  const problems: string[] = []
  const codes = folds ? ['A', 'a', 'B'] : ['A', 'B', 'C']
  const rowKey = (sku: string) => (folds ? sku.toLowerCase() : sku)
  /** By flow and row: several of its items were there, and the last one that was sent counts. */
  const doubled = new Set<string>()
  /** By item, the row that its delivery names. */
  const known = new Map<string, string>()
  let weather = 'fine'

  const makeFlow = async (name: string, deletes: boolean) => {
    const source = new Map<string, Row>()
    /** What the last read found. */
    let living: Row[] = []
    let isPaused = false
    const memory: Source = {
      async *scan() {
        living = [...source.values()].map((row) => ({ ...row }))
        yield living
      },
      readItem: async () => [],
      close: async () => undefined,
    }
    const definition = flowOf(name, table, deletes)
    const runtime: FlowRuntime = {
      flow: definition,
      definitionHash: definitionHash(definition),
      itemForm: `${itemFormHash(definition)}/${keyFormHash(definition)}`,
      forms: destinationForms(definition),
      identities: identitiesOf(definition),
      source: memory,
      cursor: undefined,
      fullScanEveryMs: undefined,
      read: createItemReader(definition).read,
      usedFields: usedFieldsOf(definition),
    }
    await database.transaction(async (trx) => {
      await insertFlowState(trx, name, runtime.definitionHash, now())
      await updateFlowState(trx, name, { destination_forms: runtime.forms })
      await adoptIdentities(trx, name, runtime.identities)
    })
    const answer = async (job: DeliveryJob): Promise<DeliveryResult> => {
      const { sku, value } = job.body as { sku: string; value: number }
      const item = `${name}/${job.pk}`
      if (job.kind === 'delete') {
        const waiting = await database.db
          .selectFrom('deliveries')
          .select(['pk', 'kind', 'payload', 'change_number as change'])
          .where('flow', '=', name)
          .where('state', '=', 'waiting')
          .execute()
        const change = waiting.find(({ pk }) => pk === job.pk)?.change ?? 0
        // A change of a later read may come later, and so may one that a person retries.
        const earlier = waiting.filter((one) => one.kind === 'upsert' && one.change <= change)
        for (const { pk, payload } of earlier)
          if (payload?.sku === sku) problems.push(`the delete of ${item} goes before ${pk}`)
      }
      const was = known.get(item)
      if (weather === 'silent') {
        // The attempt may have arrived, so its row counts as the item's.
        if (job.kind === 'upsert' && was === undefined) known.set(item, rowKey(sku))
        return down
      }
      if (weather === 'refuses') return invalid
      if (job.kind === 'delete') remove(item, sku)
      else {
        const before = [...shop.values()].find(({ items }) => items.has(item))
        const row = shop.get(rowKey(sku)) ?? { values: new Map(), items: new Set(), isLeft: false }
        const isMoved = was !== undefined && was !== rowKey(sku)
        // The process may die before it has stored this answer.
        if (isMoved && own.database.isDoomed()) row.isLeft = true
        row.values.set(name, value)
        shop.set(rowKey(sku), row)
        // Of another code in doubt nothing is known: the item counts for its former row, and the next attempt writes this one again.
        if (isMoved && weather === 'lost') row.isLeft = true
        else {
          if (before && before !== row) before.isLeft = true
          before?.items.delete(item)
          row.items.add(item)
          known.set(item, rowKey(sku))
        }
        const siblings = [...row.items].filter((one) => one.startsWith(`${name}/`))
        if (siblings.length > 1) doubled.add(`${name} ${rowKey(sku)}`)
      }
      return weather === 'lost' ? down : { ok: true }
    }
    const deps = () => ({
      ...{ database: own.database, now, log: silentLog, enqueue: own.service.enqueue },
      isOnFile: async () => true,
      isDeletedBeside: own.service.isDeletedBeside,
    })
    return {
      ...{ name, deletes, source },
      living: () => living,
      async open() {
        const { database: mine, service } = own
        const shopReceiver = receiver(async (job) => (mine.isDead() ? down : answer(job)))
        await ended(own, service.run(definition, [shopReceiver]))
      },
      async poll() {
        if (isPaused) return
        const before = living
        const poll = withLease(
          { database: own.database, now, processId: 'test', log: silentLog },
          `flow:${name}`,
          async (lease) =>
            pollOnce(deps(), runtime, lease, await requireFlowState(own.database.db, name)),
        )
        // What only this read found need not be stored.
        if (!(await ended(own, poll)))
          living = living.filter((row) =>
            before.some(({ id, sku }) => id === row.id && sku === row.sku),
          )
      },
      async pause(paused: boolean) {
        isPaused = paused
        const deps = { database, now, audit }
        if (paused) await pauseFlows(deps, [name], { actor: 'me', reason: null })
        else await resumeFlows(deps, [name], 'me')
      },
      tryNow: () => ended(own, own.service.tryNow({ flow: name, destination: 'shop' })),
      retry: () => own.service.retry({ flow: name }),
    }
  }

  const remove = (item: string, sku: string) => {
    const row = shop.get(rowKey(sku))
    const alive = both().flatMap((one) =>
      one
        .living()
        .filter((it) => rowKey(it.sku) === rowKey(sku))
        .map(({ id }) => `${one.name}/${id}`),
    )
    const taken = alive.filter((one) => one !== item && row?.items.has(one))
    if (taken.length > 0) problems.push(`the delete of ${item} takes the row of ${taken.join()}`)
    shop.delete(rowKey(sku))
    known.delete(item)
    for (const { name } of both()) doubled.delete(`${name} ${rowKey(sku)}`)
  }
  const first = await makeFlow(`${table}_first`, true)
  const second = await makeFlow(`${table}_second`, secondDeletes)
  const both = () => [first, second]
  const ofName = (name: unknown) => (name === 'second' ? second : first)

  const waiting = () =>
    database.db
      .selectFrom('deliveries')
      .select(['why', 'not_before'])
      .where(
        'flow',
        'in',
        both().map(({ name }) => name),
      )
      .where('state', '=', 'waiting')
      .execute()
  /** Follows a process that died. */
  const revive = async () => {
    if (!own.database.isDead()) return
    own = await follow(database, own)
    for (const one of both()) await one.open()
  }
  /** Until nothing is due; a delete that waits for the other flow is not. */
  const idle = async () => {
    for (let waited = 0; waited < 3_000; waited += 1) {
      await revive()
      const due = (await waiting()).filter(
        ({ why, not_before: notBefore }) => why?.code !== 'DELETE_WAITS' || notBefore === null,
      )
      if (due.length === 0) return
      await new Promise((resolve) => setTimeout(resolve, 3))
    }
    problems.push('what waits is not sent')
  }
  for (const one of both()) {
    for (const [index, id] of ids.slice(1).entries()) {
      one.source.set(id, { id, sku: codes[index + 1] ?? 'B', value: 1 })
    }
    await one.open()
  }
  for (const one of both()) {
    await one.poll()
    await idle()
  }

  return {
    problems,
    async take(one: Step) {
      const flow = ofName(one.of)
      const id = String(one.id)
      switch (one.do) {
        case 'put': {
          const sku = codes[Number(one.code)] ?? 'B'
          flow.source.set(id, { id, sku, value: Number(one.value) })
          return
        }
        case 'remove':
          flow.source.delete(id)
          return
        case 'take over': {
          const row = flow.source.get(id)
          flow.source.delete(id)
          if (row) flow.source.set(String(one.by), { ...row, id: String(one.by) })
          return
        }
        case 'remove from both':
          for (const each of both()) each.source.delete(id)
          return
        case 'move': {
          const row = flow.source.get(id)
          const other = both().find((each) => each !== flow)
          flow.source.delete(id)
          if (row) other?.source.set(id, row)
          return
        }
        case 'poll':
          await flow.poll()
          return idle()
        case 'pause':
          return flow.pause(true)
        case 'resume':
          return flow.pause(false)
        case 'restart':
          return flow.open()
        case 'kill':
          return own.database.dieAt(Number(one.nth))
        case 'try':
          await flow.tryNow()
          return idle()
        default:
          weather = String(one.is)
      }
    },
    /** All goes well at last, and everything is sent. */
    async end() {
      weather = 'fine'
      own.database.dieAt(Number.POSITIVE_INFINITY)
      await revive()
      for (const one of both()) await one.pause(false)
      for (let round = 0; round < 3; round += 1) {
        for (const one of both()) {
          await one.poll()
          await idle()
          await one.retry()
          await idle()
        }
        for (const one of both()) await one.tryNow()
        await idle()
      }
      const living = both().flatMap((one) =>
        [...one.source.values()].map((row) => ({ ...row, flow: one.name })),
      )
      for (const { flow, sku } of living) {
        const values = living
          .filter((one) => one.flow === flow && rowKey(one.sku) === rowKey(sku))
          .map(({ value }) => value)
        const has = shop.get(rowKey(sku))?.values.get(flow)
        const isOther =
          !values.includes(has ?? Number.NaN) && !doubled.has(`${flow} ${rowKey(sku)}`)
        if (has === undefined || isOther) {
          problems.push(`${sku} of ${flow} has ${has} and not ${values.join()}`)
        }
      }
      // Written almost the same as another one: a person decides.
      const failed = await database.db
        .selectFrom('deliveries')
        .select(['flow', 'pk'])
        .where('flow', 'in', [first.name, second.name])
        .where('kind', '=', 'delete')
        .where('state', '=', 'failed')
        .execute()
      const undecided = new Set(failed.map(({ flow, pk }) => `${flow}/${pk}`))
      const alive = new Set(living.map(({ sku }) => rowKey(sku)))
      for (const [key, { items, isLeft }] of shop) {
        if (alive.has(key) || isLeft) continue
        const deleting = both().filter((one) => one.deletes)
        const left = [...items].filter((item) =>
          deleting.some(({ name }) => item.startsWith(`${name}/`)),
        )
        if (left.length > 0 && !left.some((item) => undecided.has(item)))
          problems.push(`the dead ${key} is there: ${left.join()}`)
      }
      await own.service.closeAll()
    },
  }
}

test('a row that two flows write is deleted with the last item that is there, and never before', {
  tags: ['long'],
}, async () => {
  const rules = fc.record({
    secondDeletes: fc.constantFrom(false, false, true),
    folds: fc.constantFrom(false, false, true),
  })
  const histories = fc.asyncProperty(
    rules,
    fc.array(step, { minLength: 6, maxLength: 24 }),
    async (given, steps) => {
      const world = await createWorld(given)
      for (const one of steps as Step[]) await world.take(one)
      await world.end()
      expect(world.problems).toEqual([])
    },
  )
  await fc.assert(histories, {
    numRuns: timesAsMany > 1 ? 150 * timesAsMany : 40,
    endOnFailure: process.env.MODEL_SHRINK === undefined,
    ...seedOfModel(),
  })
})
