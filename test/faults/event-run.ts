import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { insertEvent } from '../../src/repositories/events/event-log.ts'
import type { RealProcess } from '../process/real-process.ts'
import { cloneTemplate, createPostgresTemplate, urlOf } from '../support/postgres-template.ts'
import type { Till } from '../support/till.ts'
import { createDraw, type Draw } from './draw.ts'
import { openReceivers, type ReadEvent, ReaderCheck, type ReceiverKind } from './event-receivers.ts'
import { type AddressIndex, openProcessTestbed, type ProcessTestbed } from './process-testbed.ts'

export type EventRunOptions = {
  events: number
  kills: number
  /** Events a second; 0: as fast as the database takes them. */
  rate: number
  seed: number
}

export type EventRunResult = {
  problems: string[]
  /** From the change to the endpoint, of endpoints that are neither dead nor slow, in order. */
  latenciesMs: number[]
  repeats: number
  /** How long the last event took to arrive after it was written. */
  settledMs: number
}

const kinds: readonly ReceiverKind[] = [
  ...['moody', 'moody', 'quick', 'quick', 'quick', 'quick', 'quick', 'quick'],
  ...['slow', 'dead'],
] as ReceiverKind[]
const resources = 500
const writers = 8
const consumers = 2
/** Readers that get nothing for so long have lost something. Longer than a start, a lease, and the pause after a refusal. */
const quietMs = 60_000

/**
 * Writes events in transactions that commit late, sends them to endpoints and reads them as consumers, from two processes that are
 * killed meanwhile. No reader may lose one, or get those of a resource out of order; repeats have the same id.
 */
export async function runEvents(
  serverUrl: string,
  options: EventRunOptions,
): Promise<EventRunResult> {
  const template = await createPostgresTemplate(serverUrl)
  const databaseUrl = urlOf(serverUrl, await cloneTemplate(serverUrl, template.name))
  const draw = createDraw('events', options.seed)
  const hook = await openReceivers(kinds, draw)
  const env = { EVENTS_PRIVATE_NETWORK: 'true', RATE_LIMIT_PER_SECOND: '100000' }
  const processes = await openProcessTestbed({ databaseUrl, env })
  const running: Running = [await processes.start(0), await processes.start(1)]
  try {
    const { shop: till } = await processes.openTill(options.seed, 0)
    await makeReaders(running, till, hook)
    const end = new AbortController()
    const checks = Array.from(
      { length: consumers },
      (_, index) => new ReaderCheck(`consumer ${index}`),
    )
    const reading = checks.map((check, index) =>
      consume({ running, till, name: `consumer-${index}`, check, draw, signal: end.signal }),
    )
    const killing = killAgain(processes, running, options, draw, end.signal)
    await write(processes.database, till.client, options, draw)
    const writtenAt = performance.now()
    const complete = [...hook.receivers.filter(isComplete).map(({ check }) => check), ...checks]
    await untilComplete(complete, options.events)
    const settledMs = performance.now() - writtenAt
    end.abort()
    await Promise.all([...reading, killing])
    const all = [...hook.receivers.map(({ check }) => check), ...checks]
    const lost = complete.filter(({ count }) => count !== options.events)
    return {
      problems: [
        ...all.flatMap(({ problems }) => problems),
        ...lost.map(({ count }) => `a reader has ${count} of ${options.events} events`),
      ],
      latenciesMs: hook.receivers
        .filter(isComplete)
        .flatMap(({ check }) => check.latenciesMs)
        .toSorted((a, b) => a - b),
      repeats: all.reduce((sum, { repeats }) => sum + repeats, 0),
      settledMs,
    }
  } finally {
    for (const { child } of running) child.kill('SIGKILL')
    await Promise.all(running.map(({ ended }) => ended))
    await processes.close()
    await hook.close()
    await template.remove()
  }
}

type Running = [RealProcess, RealProcess]

const isComplete = ({ kind }: { kind: ReceiverKind }) => kind === 'quick' || kind === 'moody'

/** Waits until every reader has every event, or none gets one any more. */
async function untilComplete(readers: readonly ReaderCheck[], events: number): Promise<void> {
  let before = -1
  let deadline = 0
  while (!readers.every(({ count }) => count >= events)) {
    const total = readers.reduce((sum, { count }) => sum + count, 0)
    if (total > before) deadline = performance.now() + quietMs
    if (performance.now() > deadline) return
    before = total
    await wait(100)
  }
}

async function ask(
  { url }: RealProcess,
  { key }: Till,
  path: string,
  body?: object,
): Promise<{ status: number; json: Record<string, unknown> }> {
  const answer = await fetch(url + path, {
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
    headers: { 'x-api-token': key, 'content-type': 'application/json' },
  })
  return { status: answer.status, json: (await answer.json()) as Record<string, unknown> }
}

async function makeReaders(
  [first]: Running,
  till: Till,
  { url, receivers }: Awaited<ReturnType<typeof openReceivers>>,
): Promise<void> {
  const types = ['order.paid']
  for (const { path } of receivers) {
    const { status } = await ask(first, till, '/events/endpoints', { url: url + path, types })
    if (status !== 201) throw new Error(`no endpoint: ${status}`)
  }
  for (let index = 0; index < consumers; index += 1) {
    const body = { name: `consumer-${index}`, from: 'now' }
    await ask(first, till, '/events/feed/consumers', body)
  }
}

type Consumer = {
  running: Running
  till: Till
  name: string
  check: ReaderCheck
  draw: Draw
  signal: AbortSignal
}

/** Reads and commits by turns at both processes; now and then it stops between the two, as a program that was killed. */
async function consume({ running, till, name, check, draw, signal }: Consumer): Promise<void> {
  for (let turn = 0; !signal.aborted; turn += 1) {
    const process = running[turn % 2 === 0 ? 0 : 1] as RealProcess
    const query = `reader=${name}`
    try {
      const read = await ask(
        process,
        till,
        `/events/feed?consumer=${name}&${query}&types=order.paid&limit=500`,
      )
      if (read.status !== 200) throw new Error(String(read.status))
      const { events, next } = read.json as { events: ReadEvent[]; next: string }
      for (const event of events) check.take(event)
      if (draw.maybe(`${name} stops ${turn}`, 0.1)) {
        await wait(draw.int(`${name} rests ${turn}`, 50, 1_000))
        continue
      }
      await ask(process, till, `/events/feed/consumers/${name}?${query}`, { after: next })
      if (events.length === 0) await wait(100)
    } catch {
      // The process is dead, or is being started.
      await wait(200)
    }
  }
}

/** Kills a process and starts it again, spread over the time of writing. */
async function killAgain(
  processes: ProcessTestbed,
  running: Running,
  { kills, events, rate }: EventRunOptions,
  draw: Draw,
  signal: AbortSignal,
): Promise<void> {
  const writingMs = rate > 0 ? (events / rate) * 1_000 : events * 3
  for (let kill = 0; kill < kills && !signal.aborted; kill += 1) {
    await wait((writingMs / (kills + 1)) * (0.5 + draw.int(`kill ${kill}`, 0, 100) / 100))
    const at = draw.pick<AddressIndex>(`killed ${kill}`, [0, 1])
    running[at].child.kill('SIGKILL')
    await running[at].ended
    running[at] = await processes.start(at)
  }
}

/** Changes resources: the row is locked, its version grows, the event is written, and the commit comes late. */
async function write(
  database: Database,
  client: string,
  { events, rate }: EventRunOptions,
  draw: Draw,
): Promise<void> {
  await sql`create table probe (id integer primary key, version integer not null)`.execute(
    database.db,
  )
  await sql`insert into probe select n, 0 from generate_series(0, ${resources - 1}) as n`.execute(
    database.db,
  )
  const startedAt = performance.now()
  let next = 0
  const writer = async () => {
    for (let place = next++; place < events; place = next++) {
      if (rate > 0) await wait(Math.max(0, startedAt + (place / rate) * 1_000 - performance.now()))
      await change(database, client, place, draw)
    }
  }
  await Promise.all(Array.from({ length: writers }, writer))
}

async function change(database: Database, client: string, place: number, draw: Draw) {
  const resource = draw.int(`resource ${place}`, 0, resources - 1)
  await database.transaction(async (trx) => {
    const { rows } = await sql<{ version: number }>`
      update probe set version = version + 1 where id = ${resource} returning version`.execute(trx)
    await insertEvent(trx, {
      client: client as never,
      sucursalId: null,
      cajaId: null,
      type: 'order.paid',
      at: new Date(),
      resource: { type: 'order', id: `r${resource}`, version: rows[0]?.version ?? 0 },
      orderId: null,
      changes: {},
      data: { written_at: Date.now() },
    })
    const isLate = draw.maybe(`late ${place}`, 0.02)
    if (isLate) await wait(draw.int(`held ${place}`, 50, 300))
  })
}
