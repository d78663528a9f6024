import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { QuestionAnswer as Reply } from '../../src/db/column-types.ts'
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
import {
  pauseFlows,
  resetFlow,
  resetItem,
  resumeFlows,
} from '../../src/flows/poll/pauses-and-limits.ts'
import { pollOnce } from '../../src/flows/poll/poll.ts'
import { questionState } from '../../src/flows/poll/poll-plan.ts'
import { applyAnswer } from '../../src/flows/poll/question.ts'
import type { DeliveryJob, DeliveryResult, Source } from '../../src/flows/types.ts'
import { withLease } from '../../src/jobs/with-lease.ts'
import {
  adoptIdentities,
  insertFlowState,
  requireFlowState,
  storeAnswer,
  updateFlowState,
} from '../../src/repositories/flows/flow-state.ts'
import { backUp, openTestDatabase } from '../support/database.ts'
import { seedOfModel, timesAsMany } from '../support/rounds.ts'
import { down, invalid, receiver } from './deliver-support.ts'
import { audit, silentLog } from './poll-support.ts'
import { ended, follow, startProcess, type TestProcess } from './test-process.ts'

/**
 * Random histories of a source, its definition, answers of the shop, crashes, replicas that are promoted, and operators, against a model of what the shop
 * must have: nothing living is deleted, nothing is sent by a definition that is not accepted, and in the end every item is there
 * as the source has it, except for what an operator kept or forgot.
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

type Row = { id: string; sku: string; price: number; on: boolean }
type Shape = { factor: number; filter: boolean; key: 'id' | 'sku'; deletes: boolean }

const schema = flowSchema({
  env: { DB: 'postgres://me:secret@db.example/shop' },
  readFile: () => '',
  mail: { smtpUrl: undefined, mailFrom: undefined },
})

function flowOf(name: string, { factor, filter, key, deletes }: Shape): Flow {
  const flow = schema.parse({
    ...{ version: 1, name, pollInterval: '1h' },
    source: { type: 'file', path: './x.json', format: 'json' },
    item: { key, ...(filter && { filter: 'on' }) },
    deletes: {
      mode: deletes ? 'delete' : 'ignore',
      guard: { maxPercent: 100, minItems: 1_000, emptySource: 'allow' },
    },
    destinations: [
      {
        ...{ name: 'shop', type: 'sql', driver: 'postgres', url: `\${env:DB}`, table: name },
        upsertKey: ['sku'],
        map: `{ "sku": sku, "price": price * ${factor}, "factor": ${factor} }`,
        breaker: false,
      },
    ],
  })
  for (const one of flow.destinations) {
    Object.assign(one.retry, { attempts: 2, initialMs: 1, maxMs: 1, jitter: 0 })
  }
  return flow
}

const ids = ['1', '2', '3', '4']
const anId = fc.constantFrom(...ids)
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('price'), id: anId, price: fc.nat(5) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove'), id: anId }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('switch'), id: anId }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('poll') }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('define'),
      factor: fc.constantFrom(1, 10),
      filter: fc.boolean(),
      key: fc.constantFrom('id', 'id', 'sku'),
      deletes: fc.constantFrom(true, true, false),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('answer'),
      how: fc.constantFrom('send', 'keep', 'send_without_deletes'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('weather'),
      is: fc.constantFrom('fine', 'refuses', 'silent', 'lost'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reset') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reset item'), id: anId }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart') }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('kill'), nth: fc.integer({ min: 1, max: 40 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('copy') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('promote') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pause') }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('resume') }) },
)
type Step = { do: string } & Record<string, unknown>

/** One flow, its source and its shop. */
async function createWorld() {
  serial += 1
  const name = `model_${process.pid}_${serial}`
  const source = new Map<string, Row>()
  const shop = new Map<string, number>()
  /** What an operator kept: by id, the price at the source then. */
  const kept = new Map<string, number>()
  /** Rows that are no longer of the flow. */
  const forgotten = new Set<string>()
  /** Rows that a read missed: their delete may come late. */
  const lost = new Set<string>()
  const problems: string[] = []
  let shape: Shape = { factor: 1, filter: false, key: 'id', deletes: true }
  let accepted = shape
  let weather = 'fine'
  let living = new Set<string>()
  /** By id, the price that the last read found. */
  let readPrices = new Map<string, number>()
  /** Nothing was reset or in doubt so far, so each digest is known. */
  let isCalm = true
  let isPaused = false

  /** Goes back to the moment of a copy, as a replica does that is promoted and lacks the last commits. */
  let promote: (() => Promise<void>) | undefined
  /** Rows that were written after the copy: the database that took over knows nothing of it. */
  const unknown = new Set<string>()
  const writtenSince = new Set<string>()
  const note = (sku: string) => {
    writtenSince.add(sku)
    unknown.delete(sku)
  }

  const seen = () => [...source.values()].filter(({ on }) => on || !shape.filter)
  const answer = async (job: DeliveryJob): Promise<DeliveryResult> => {
    const { sku, price, factor } = job.body as { sku: string; price: number; factor: number }
    if (weather === 'silent') return down
    if (weather === 'refuses') return invalid
    if (job.kind === 'delete') {
      // As the destinations do: without what names the item nothing is asked of the shop.
      if (sku === undefined) return invalid
      // A repeated attempt may meet the read that finds the item again.
      const isLate = lost.has(sku) || weather === 'lost'
      if (living.has(sku) && !isLate) problems.push(`the living ${sku} is deleted`)
      lost.delete(sku)
      shop.delete(sku)
      note(sku)
    } else {
      if (factor !== accepted.factor)
        problems.push(`${sku} is sent by a definition that is not accepted`)
      shop.set(sku, price)
      note(sku)
    }
    return weather === 'lost' ? down : { ok: true }
  }

  const memory: Source = {
    async *scan() {
      living = new Set(seen().map(({ sku }) => sku))
      readPrices = new Map([...source.values()].map(({ id, price }) => [id, price]))
      for (const sku of shop.keys()) if (!living.has(sku)) lost.add(sku)
      yield [...source.values()].map((row) => ({ ...row }))
    },
    readItem: async () => [],
    close: async () => undefined,
  }
  const runtimeOf = (flow: Flow): FlowRuntime => ({
    flow,
    definitionHash: definitionHash(flow),
    itemForm: `${itemFormHash(flow)}/${keyFormHash(flow)}`,
    forms: destinationForms(flow),
    identities: identitiesOf(flow),
    source: memory,
    cursor: undefined,
    fullScanEveryMs: undefined,
    read: createItemReader(flow).read,
    usedFields: usedFieldsOf(flow),
  })
  let runtime = runtimeOf(flowOf(name, shape))
  await database.transaction(async (trx) => {
    await insertFlowState(trx, name, runtime.definitionHash, now())
    await updateFlowState(trx, name, { destination_forms: runtime.forms })
    await adoptIdentities(trx, name, runtime.identities)
  })
  const deps = () => ({
    ...{ database: own.database, now, log: silentLog, enqueue: own.service.enqueue },
    isOnFile: async () => true,
    isDeletedBeside: own.service.isDeletedBeside,
  })
  const leased = <T>(work: (lease: Parameters<typeof pollOnce>[2]) => Promise<T>) =>
    withLease(
      { database: own.database, now, processId: 'test', log: silentLog },
      `flow:${name}`,
      work,
    )
  const state = async () => questionState(runtime, await requireFlowState(database.db, name))
  const open = async () => {
    const { service, database: mine } = own
    const shopReceiver = receiver(async (job) => (mine.isDead() ? down : answer(job)))
    await ended(own, service.run(runtime.flow, [shopReceiver]))
  }
  /** Follows a process that died. */
  const revive = async () => {
    if (!own.database.isDead()) return
    isCalm = false
    own = await follow(database, own)
    await open()
  }
  /** Until nothing is due, or what is due waits for an answer. */
  const idle = async () => {
    for (let waited = 0; waited < 3_000; waited += 1) {
      await revive()
      const due = await database.db
        .selectFrom('deliveries')
        .select('pk')
        .where('flow', '=', name)
        .where('state', '=', 'waiting')
        .executeTakeFirst()
      const { question } = await requireFlowState(database.db, name)
      if (!due || question || weather === 'lost' || weather === 'silent') return
      if ((await state()) !== 'none') return
      await new Promise((resolve) => setTimeout(resolve, 3))
    }
    problems.push('what waits is not sent')
  }
  const poll = async () => {
    if (isPaused) return
    const before = living
    const isEnded = await ended(
      own,
      leased(async (lease) =>
        pollOnce(deps(), runtime, lease, await requireFlowState(own.database.db, name)),
      ),
    )
    if (!isEnded) {
      // What only this read found need not be stored.
      living = new Set([...living].filter((sku) => before.has(sku)))
      return idle()
    }
    if ((await state()) === 'none') for (const sku of living) forgotten.delete(sku)
    if ((await state()) === 'none' && accepted !== shape) {
      accepted = shape
      await open()
    }
    await idle()
    const { question } = await requireFlowState(database.db, name)
    const changed = question?.destinations?.[0]?.changed ?? 0
    if (isCalm && shape.factor === accepted.factor && shape.key === accepted.key && changed > 0)
      problems.push('what a definition leaves as it is is asked about')
  }
  /** What differs because of the definition only: a price that changed at the source since is sent after any answer. */
  const keepable = () =>
    [...source.values()].filter(({ id, sku, price }) => {
      if (readPrices.get(id) !== price) return false
      const has = shop.get(sku)
      return !isCalm || has === undefined || has === price * accepted.factor
    })
  const reply = async (how: Reply) => {
    const { question } = await requireFlowState(database.db, name)
    if ((await state()) !== 'asked' || question?.number === undefined) return
    const { number } = question
    if (how === 'keep') {
      for (const { id, price } of keepable()) kept.set(id, price)
      isCalm = false
    }
    const isForgetting = how !== 'send' || !shape.deletes
    if (isForgetting) for (const sku of shop.keys()) if (!living.has(sku)) forgotten.add(sku)
    accepted = shape
    await database.transaction((trx) => storeAnswer(trx, name, { number, answer: how }))
    const apply = () =>
      leased(async (lease) =>
        applyAnswer(deps(), runtime, lease, await requireFlowState(own.database.db, name)),
      )
    while (!(await ended(own, apply()))) await revive()
    await open()
    await idle()
  }
  const define = async (next: Shape) => {
    // Of items under another key nothing tells a change of the source from one of the definition.
    if (next.key !== shape.key) isCalm = false
    shape = next
    runtime = runtimeOf(flowOf(name, shape))
    await open()
  }

  for (const id of ids.slice(1))
    source.set(id, { id, sku: `S${id}`, price: Number(id), on: id !== '4' })
  await open()
  await poll()
  return {
    problems,
    async take(one: Step) {
      const id = String(one.id)
      const row = source.get(id)
      switch (one.do) {
        case 'price': {
          const price = Number(one.price)
          source.set(id, { ...(row ?? { id, sku: `S${id}`, on: true }), price })
          if (row?.price !== price) kept.delete(id)
          return
        }
        case 'remove':
          source.delete(id)
          if (!shape.deletes || !accepted.deletes) forgotten.add(`S${id}`)
          kept.delete(id)
          return
        case 'switch':
          // The mapping does not use it: what was kept stays so.
          if (row) source.set(id, { ...row, on: !row.on })
          if (!shape.deletes || !accepted.deletes) forgotten.add(`S${id}`)
          return
        case 'poll':
          return poll()
        case 'define':
          return define({
            factor: Number(one.factor),
            filter: one.filter === true,
            key: one.key === 'sku' ? 'sku' : 'id',
            deletes: one.deletes === true,
          })
        case 'answer':
          return reply(one.how as Reply)
        case 'weather':
          weather = String(one.is)
          if (weather !== 'fine') isCalm = false
          return idle()
        case 'pause':
          isPaused = true
          return pauseFlows({ database, now, audit }, [name], { actor: 'me', reason: null })
        case 'resume': {
          const before = await state()
          const { question: asked } = await requireFlowState(database.db, name)
          isPaused = false
          await resumeFlows({ database, now, audit }, [name], 'me')
          const { question } = await requireFlowState(database.db, name)
          if (before === 'asked' && (await state()) !== 'asked')
            problems.push('a resume answers a question')
          if (question?.answer !== asked?.answer) problems.push('a resume gives an answer')
          return
        }
        case 'reset':
          isCalm = false
          kept.clear()
          await resetFlow({ database, now, audit }, name, 'me')
          return
        case 'reset item':
          isCalm = false
          await resetItem(
            { database, now, audit },
            name,
            accepted.key === 'id' ? id : `S${id}`,
            'me',
          )
          return
        case 'copy': {
          const restore = await backUp(database)
          const known = { accepted, living, readPrices, isPaused }
          const sets = [new Map(kept), new Set(forgotten)] as const
          writtenSince.clear()
          promote = async () => {
            own.database.die()
            await own.service.stop({ timeoutMs: 0 }).catch(() => {})
            await restore()
            ;({ accepted, living, readPrices, isPaused } = known)
            kept.clear()
            for (const [id, price] of sets[0]) kept.set(id, price)
            for (const sku of sets[1]) forgotten.add(sku)
            for (const sku of writtenSince) unknown.add(sku)
            await revive()
          }
          return
        }
        case 'promote':
          await promote?.()
          return idle()
        case 'kill':
          return own.database.dieAt(Number(one.nth))
        default:
          await open()
      }
    },
    /** All goes well at last, and everything is sent. */
    async end() {
      weather = 'fine'
      own.database.dieAt(Number.POSITIVE_INFINITY)
      await revive()
      isPaused = false
      await resumeFlows({ database, now, audit }, [name], 'me')
      await open()
      await idle()
      for (let round = 0; round < 3; round += 1) {
        await poll()
        await reply('send')
        await own.service.retry({ flow: name })
        await idle()
      }
      const { factor, deletes } = shape
      for (const { id, sku, price } of seen()) {
        const has = shop.get(sku)
        const isKept = kept.get(id) === price
        if (has !== price * factor && !isKept && !unknown.has(sku)) {
          problems.push(`${sku} has ${has} and not ${price * factor}`)
        }
      }
      const read = new Set(seen().map(({ sku }) => sku))
      // Of an item that was delivered while nothing was deleted its identity may not be stored: the delete fails, and is shown.
      const failed = await database.db
        .selectFrom('deliveries')
        .select('pk')
        .where('flow', '=', name)
        .where('kind', '=', 'delete')
        .where('state', '=', 'failed')
        .execute()
      for (const { pk } of failed) forgotten.add(pk.startsWith('S') ? pk : `S${pk}`)
      for (const sku of shop.keys()) {
        if (deletes && !read.has(sku) && !forgotten.has(sku) && !unknown.has(sku))
          problems.push(`the dead ${sku} is there`)
      }
      await own.service.closeAll()
    },
  }
}

test('whatever happens to source, definition and shop, the shop has what it must have', {
  tags: ['long'],
}, async () => {
  const histories = fc.asyncProperty(
    fc.array(step, { minLength: 6, maxLength: 20 }),
    async (steps) => {
      const world = await createWorld()
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
