import type { Database } from '../../src/db/database.ts'
import { type Flow, flowSchema } from '../../src/flows/definition/schema.ts'
import { Deliveries, type DeliveriesDeps } from '../../src/flows/deliver/deliver.ts'
import type { SavedDeliveries } from '../../src/flows/deliver/destination-worker.ts'
import { retryFailed } from '../../src/flows/deliver/retry-deliveries.ts'
import { withheld } from '../../src/flows/destinations/delivery-result.ts'
import type { DestinationContext } from '../../src/flows/destinations/destination-context.ts'
import type { Enqueue } from '../../src/flows/poll/poll-deps.ts'
import { createEnqueue } from '../../src/flows/poll/poll-writer.ts'
import type {
  DeliveryJob,
  DeliveryResult,
  Destination,
  DestinationDefinition,
  ItemChange,
} from '../../src/flows/types.ts'
import { createLeader, type Leader, type Term } from '../../src/jobs/leader.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import type { SendPermit } from '../../src/outbound/outbound.ts'

export type Rules = Partial<
  Pick<
    DestinationDefinition,
    'concurrency' | 'rateLimit' | 'breaker' | 'timeoutMs' | 'map' | 'fields'
  >
> & { name?: string; retry?: Partial<DestinationDefinition['retry']> }

/** Two attempts, 20 ms apart. */
const quickRetry = { attempts: 2, initialMs: 20, factor: 1, maxMs: 20, jitter: 0 }

export function flowOf(name: string, rules: Rules[] = [{}], change: Partial<Flow> = {}): Flow {
  const context = { env: {}, readFile: () => '', mail: { smtpUrl: undefined, mailFrom: undefined } }
  const flow = flowSchema(context).parse({
    version: 1,
    name,
    pollInterval: '1h',
    source: { type: 'file', path: 'in.ndjson', format: 'ndjson' },
    item: { key: 'id' },
    destinations: rules.map((rule, index) => ({
      name: rule.name ?? (index === 0 ? 'web' : `web-${index}`),
      type: 'file',
      path: 'out.ndjson',
      concurrency: 4,
    })),
  })
  return {
    ...flow,
    destinations: flow.destinations.map((definition, index) => {
      const { name: _, retry, ...rest } = rules[index] ?? {}
      return { ...definition, ...rest, retry: { ...quickRetry, ...retry } } as DestinationDefinition
    }),
    ...change,
  }
}

export type Answer = (job: DeliveryJob, signal: AbortSignal) => Promise<DeliveryResult>

/** A destination of a test: what it was given, and how it answers. */
export type Receiver = Destination & {
  calls: DeliveryJob[]
  closed: boolean
}

/** `connect` is what it does before the first byte. */
export function receiver(
  answer: Answer = async () => ({ ok: true }),
  connect = async () => {},
): Receiver {
  const own: Receiver = {
    calls: [],
    closed: false,
    deliver: async (job, signal) => {
      await connect()
      if (!job.mayStart()) return withheld()
      own.calls.push(job)
      return await answer(job, signal)
    },
    refusalOf: () => undefined,
    close: async () => {
      own.closed = true
    },
  }
  return own
}

type Refusal = Extract<DeliveryResult, { ok: false }>

export const down: Refusal = {
  ok: false,
  retryable: true,
  outage: true,
  why: { code: 'HTTP_STATUS', data: { status: 503 } },
  status: 503,
}
export const busy: Refusal = {
  ...down,
  outage: false,
  why: { code: 'HTTP_STATUS', data: { status: 409 } },
  status: 409,
}
export const invalid: Refusal = {
  ok: false,
  retryable: false,
  outage: false,
  why: { code: 'HTTP_STATUS', data: { status: 422, said: 'no such city' } },
  status: 422,
}

export type LogLine = { level: string; message: string; fields: object }

export function memoryLog() {
  const lines: LogLine[] = []
  const at = (level: string) => (fields: object, message: string) => {
    lines.push({ level, message, fields })
  }
  return { lines, info: at('info'), warn: at('warn'), error: at('error') }
}

export type Service = Pick<
  Deliveries,
  'start' | 'stop' | 'open' | 'close' | 'isDeletedBeside' | 'tryNow' | 'countActive'
> & {
  /** What was committed of outcomes. */
  saved: SavedDeliveries[]
  enqueue: Enqueue
  database: Database
  log: ReturnType<typeof memoryLog>
  /** Opens or changes a flow whose destinations are these receivers, in the order of its definition. */
  run(flow: Flow, receivers: Receiver[]): Promise<void>
  /** Ends every flow that runs, so that idle ones do not slow down the next test. */
  closeAll(): Promise<void>
  retry(filter: Parameters<typeof retryFailed>[1]): Promise<number>
  /** What a poll does with changes, in a transaction of its own. */
  change(flow: Flow, changes: (Partial<ItemChange> & { pk: string })[]): Promise<void>
}

let changes = 0

/** A lease that no process takes away; `Term.sending` is the same. */
export const permit: SendPermit = async () => () => true
export const sending = <T>(work: (given: SendPermit) => Promise<T>): Promise<T> => work(permit)

/** A term that never ends. */
export const openTerm: Term = {
  signal: new AbortController().signal,
  sending,
  holds: async () => true,
  proof: () => null,
}
/** A process that is alone on its database. */
export const leading: Leader = {
  start: async () => {},
  current: () => openTerm,
  follow: () => () => {},
  stop: async () => {},
}

export type ServiceDeps = Partial<DeliveriesDeps> & {
  processId?: string
  leaseMs?: number
  leader?: Leader
}

export const change = (one: Partial<ItemChange> & { pk: string }): ItemChange => ({
  kind: 'upsert',
  hash: 'h1:a',
  value: { id: one.pk },
  change: ++changes,
  ...one,
})

export function createService(
  database: Database,
  { processId = 'test', leaseMs, ...deps }: ServiceDeps = {},
): Service {
  const log = memoryLog()
  const now = () => new Date()
  const leader =
    deps.leader ?? createLeader({ database, now, processId, log, ...(leaseMs && { leaseMs }) })
  const receivers = new Map<string, Receiver>()
  const saved: SavedDeliveries[] = []
  const deliveries = new Deliveries({
    database,
    now,
    random: () => 0.5,
    leader,
    log,
    pollMs: 20,
    onSaved: (one) => saved.push(one),
    openDestination: (definition, context) => {
      const found = receivers.get(`${(context.flow as Flow).name}/${definition.name}`)
      if (!found) throw new Error(`no receiver for ${definition.name}`)
      return found
    },
    ...deps,
  })
  const context: Omit<DestinationContext, 'flow'> = {
    agent: createGuardedAgent({ allowPrivateNetwork: false }),
    payments: {
      upsertStore: () => Promise.reject(new Error('not here')),
      addPos: () => Promise.reject(new Error('not here')),
      deletePos: () => Promise.reject(new Error('not here')),
      deleteStore: () => Promise.reject(new Error('not here')),
    },
    now: () => new Date(),
  }
  const open = new Set<string>()
  const enqueue = createEnqueue({ database, now: () => new Date() })
  return {
    open: (...given) => deliveries.open(...given),
    close: (name) => deliveries.close(name),
    isDeletedBeside: (name) => deliveries.isDeletedBeside(name),
    tryNow: (target) => deliveries.tryNow(target),
    countActive: () => deliveries.countActive(),
    saved,
    enqueue,
    database,
    log,
    retry: (filter) => retryFailed({ database, now: () => new Date() }, filter),
    start: async () => {
      await deliveries.start()
      await leader.start()
    },
    stop: async (options) => {
      await deliveries.stop(options)
      await leader.stop()
    },
    closeAll: async () => {
      await Promise.all([...open].map((name) => deliveries.close(name)))
      open.clear()
    },
    run: async (flow, given) => {
      open.add(flow.name)
      for (const [index, { name }] of flow.destinations.entries()) {
        const one = given[index]
        if (one) receivers.set(`${flow.name}/${name}`, one)
      }
      await deliveries.open(flow, context)
    },
    change: async (flow, changes) => {
      await database.transaction((trx) => enqueue(trx, { flow }, changes.map(change)))
    },
  }
}

export function rowOf(database: Database, flow: string, pk: string, destination = 'web') {
  return database.db
    .selectFrom('deliveries')
    .selectAll()
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where('pk', '=', pk)
    .executeTakeFirst()
}

export async function statesOf(database: Database, flow: string): Promise<Record<string, number>> {
  const rows = await database.db
    .selectFrom('deliveries')
    .select(['state', (eb) => eb.fn.countAll<number>().as('count')])
    .where('flow', '=', flow)
    .groupBy('state')
    .execute()
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

/** A gate that a test opens. */
export function latch() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: () => resolve() }
}
