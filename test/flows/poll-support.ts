import type { Database } from '../../src/db/database.ts'
import { flowSchema } from '../../src/flows/definition/schema.ts'
import type { FlowRuntime } from '../../src/flows/item/flow-runtime.ts'
import { createItemReader } from '../../src/flows/item/item.ts'
import { usedFieldsOf } from '../../src/flows/poll/missing-fields.ts'
import { pollOnce } from '../../src/flows/poll/poll.ts'
import type { PollDeps } from '../../src/flows/poll/poll-deps.ts'
import type { PollOutcome } from '../../src/flows/poll/poll-loop.ts'
import type { Source, SourceRow } from '../../src/flows/types.ts'
import { withLease } from '../../src/jobs/with-lease.ts'
import { recordNewItems } from '../../src/repositories/flows/deliveries.ts'
import { insertFlowState, requireFlowState } from '../../src/repositories/flows/flow-state.ts'

export const silentLog = { info() {}, warn() {}, error() {} }

export type Enqueued = { pk: string; kind: string; hash: string; value: Record<string, unknown> }

export type TestPoll = {
  name: string
  deps: PollDeps
  runtime: FlowRuntime
  /** What the source gives from now on; each entry is a batch. */
  rows: SourceRow[][]
  /** Called before each batch is given. */
  beforeBatch: (index: number) => Promise<void> | void
  /** `since` of each scan, in order. */
  scans: (string | null)[]
  /** What was queued by transactions that were committed. */
  enqueued: Enqueued[]
  poll(): Promise<PollOutcome | undefined>
}

let serial = 0

/** One flow with a source in memory on a real database; nothing is delivered. */
export async function createTestPoll(
  database: Database,
  options: {
    now: () => Date
    flow?: Record<string, unknown>
    cursor?: Omit<NonNullable<FlowRuntime['cursor']>, 'origin'>
    fullScanEveryMs?: number
    definitionHash?: string
    name?: string
  },
): Promise<TestPoll> {
  serial += 1
  const name = options.name ?? `flow-${process.pid}-${serial}`
  const flow = flowSchema({
    env: {},
    readFile: () => '',
    mail: { smtpUrl: undefined, mailFrom: undefined },
  }).parse({
    version: 1,
    name,
    pollInterval: '1m',
    source: { type: 'file', path: './x.json', format: 'json' },
    item: { key: 'id', ...(options.flow?.item as object) },
    destinations: [{ name: 'out', type: 'file', path: './out.ndjson', format: 'ndjson' }],
    ...(options.flow?.deletes !== undefined && { deletes: options.flow.deletes }),
  })
  const reader = createItemReader(flow)
  const source: Source = {
    async *scan({ since, signal }) {
      test.scans.push(since)
      for (const [index, batch] of test.rows.entries()) {
        await test.beforeBatch(index)
        signal.throwIfAborted()
        yield batch
      }
    },
    readItem: async () => [],
    close: async () => undefined,
  }
  const deps: PollDeps = {
    database,
    now: options.now,
    log: silentLog,
    isOnFile: async () => true,
    isDeletedBeside: () => false,
    enqueue: async (trx, _runtime, changes, { areNew } = {}) => {
      const queueOfNoDestination = { flow: name, destinations: [], keepsHistory: false }
      if (areNew) await recordNewItems(trx, queueOfNoDestination, changes, options.now())
      // Into a table, so that a rollback takes it back.
      for (const change of changes) {
        await trx
          .insertInto('flow_activity')
          .values({
            at: options.now(),
            flow: name,
            action: 'enqueued',
            actor: 'test',
            detail: JSON.stringify(change),
          })
          .execute()
      }
    },
  }
  const test: TestPoll = {
    name,
    deps,
    runtime: {
      flow,
      definitionHash: options.definitionHash ?? 'd1',
      itemForm: 'f1',
      forms: {},
      source,
      cursor: options.cursor && { origin: 'o1', ...options.cursor },
      fullScanEveryMs: options.fullScanEveryMs,
      read: reader.read,
      usedFields: usedFieldsOf(flow),
      identities: { source: 'source', destinations: {} },
    },
    rows: [],
    beforeBatch: () => undefined,
    scans: [],
    enqueued: [],
    async poll() {
      const lease = { database, now: options.now, processId: 'test', log: silentLog }
      try {
        const leased = await withLease(lease, `flow:${name}`, async (own) => {
          const state = await requireFlowState(database.db, name)
          return pollOnce(deps, test.runtime, own, state)
        })
        return leased?.result
      } finally {
        test.enqueued = await readEnqueued(database, name)
      }
    },
  }
  await database.transaction((trx) =>
    insertFlowState(trx, name, options.definitionHash ?? 'd1', options.now()),
  )
  return test
}

async function readEnqueued(database: Database, name: string): Promise<Enqueued[]> {
  const rows = await database.db
    .selectFrom('flow_activity')
    .select('detail')
    .where('flow', '=', name)
    .where('action', '=', 'enqueued')
    .orderBy('id')
    .execute()
  return rows.map(({ detail }) => JSON.parse(String(detail)))
}

/** `{ id: '1', …}` for each number. */
export function records(from: number, to: number, more: object = {}): SourceRow[] {
  return Array.from({ length: to - from + 1 }, (_, index) => ({ id: `${from + index}`, ...more }))
}

/** Where no service is around a switch, nothing is written to its audit log. */
export const audit = async (): Promise<void> => undefined
