import type { Database, Trx } from '../db/database.ts'
import type { ClientName } from '../domain/client-name.ts'
import type { ErrorCode } from '../errors/app-error.ts'
import { createBackgroundJob } from '../jobs/background-job.ts'
import { createBatchingWriter } from '../jobs/batching-writer.ts'
import { createSingleFlight } from '../jobs/single-flight.ts'
import {
  type NewFinding,
  type NewRefusal,
  saveFindings,
  saveRefusals,
} from '../repositories/fleet/fleet-observations.ts'
import {
  deleteFleetChangesBefore,
  type FleetChangesWanted,
  type FleetStateRow,
  findLastFleetChange,
  fleetChannel,
  listFleetChanges,
  listFleetChangesAfter,
  listFleetStates,
  writeFleetChanges,
} from '../repositories/fleet/fleet-states.ts'
import {
  keepLease,
  type LeaseToken,
  leaseMs,
  releaseLease,
  renewLease,
  takeLease,
} from '../repositories/leases.ts'
import { concernsBox } from './box-health.ts'
import { deriveHealth } from './fleet-health.ts'
import {
  type FleetChange,
  findChanges,
  type KnownStates,
  revive,
  sinceBegan,
  toChange,
} from './health-changes.ts'
import { type FleetHealth, type Health, subjectKey } from './health-states.ts'
import { boxKey, type FlowSeen } from './observations.ts'
import { readObservations } from './read-observations.ts'

/** Observations without a row of their own. They are written a moment later; no caller waits for them or fails with them. */
type ObservationWriter = {
  /** A charge that ended with an error. Errors that say nothing about the box are left out. */
  recordRefusal(client: ClientName, cajaId: string, code: ErrorCode): void
  /** What a read found about the terminal of a box. */
  recordFinding(finding: Omit<NewFinding, 'at'>): void
  /** Writes what is pending. Never fails. */
  flush(): Promise<void>
}

/**
 * The states of boxes, connections, flows and destinations. Each process derives them from stored
 * observations; the owner of a lease stores the changes.
 */
export type Fleet = ObservationWriter & {
  /** The current states of one client, or of all clients and the flows. */
  read(client?: ClientName): Promise<FleetHealth>
  /** The state of a box a few seconds ago, from memory; undefined if it has no problem. */
  troubleOf(client: ClientName, cajaId: string): Health | undefined
  /** Changes after one, in their order, the same in every process. `lastChange` is the newest. */
  changesAfter(id: number, limit: number): Promise<FleetChange[]>
  lastChange(): Promise<number>
  /** Changes, newest first. */
  history(wanted: FleetChangesWanted): Promise<FleetChange[]>
  /** From now on the states of flows are derived too. `page` is the address of their page, if browsers can reach it. */
  watchFlows(flows: () => Promise<readonly FlowSeen[]>, page?: string): void
  flowsPage(): string | undefined
  /** Derives the states and stores the changes, unless another process does. Returns whether it did. */
  tick(): Promise<boolean>
  start(): void
  stop(): Promise<void>
}

type FleetDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  processId: string
  log: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
}

/** The delay until a change is seen. A silent terminal must be known within half a minute. */
const intervalMs = 3_000
/** Kept between runs, so that one process writes all changes until it stops or its lease expires. */
const lease = 'fleet'
const housekeepingMs = 3600_000
const keepChangesMs = 90 * 24 * 3600_000

export function createFleet(deps: FleetDeps): Fleet {
  const { database, now } = deps
  const { db } = database
  const observations = createObservationWriter(database, now, deps.log)
  let pageOfFlows: string | undefined
  let flows: (() => Promise<readonly FlowSeen[]>) | undefined
  let troubles = new Map<string, Health>()
  let held: LeaseToken | undefined
  let deletedAt = Number.NEGATIVE_INFINITY

  const derive = async (client?: ClientName) => {
    await observations.flush()
    const at = now()
    const seen = await readObservations(db, flows, at, client)
    return deriveHealth(seen, at)
  }

  const readOnce = createSingleFlight()

  const remember = (rows: readonly FleetStateRow[]) => {
    const boxes = rows.filter(
      ({ kind, state }) => kind === 'box' && (state === 'down' || state === 'attention'),
    )
    troubles = new Map(
      boxes.map((row) => [boxKey({ client: row.scope, cajaId: row.name }), revive(row)]),
    )
  }

  const holdLease = async (): Promise<LeaseToken | undefined> => {
    if (held && (await renewLease(db, held, { now: now(), lengthMs: leaseMs }))) return held
    held = await takeLease(database, { name: lease, owner: deps.processId, now: now() })
    return held
  }

  const keepChanges = async (trx: Trx, health: FleetHealth, own: LeaseToken) => {
    if (!(await keepLease(trx, own))) return undefined
    const known = await listFleetStates(trx)
    const changes = findChanges(known, health, { hasFlows: flows !== undefined })
    await writeFleetChanges(trx, changes)
    return changes
  }

  const tick = async () => {
    const own = await holdLease()
    if (!own) {
      remember(await listFleetStates(db))
      return false
    }
    const health = await derive()
    const changes = await database.transaction((trx) => keepChanges(trx, health, own))
    if (changes === undefined) return false
    for (const { kind, scope, name, from_state, state, cause } of changes) {
      // A first observation is not a change.
      if (from_state === null) continue
      deps.log.info({ kind, scope, name, from: from_state, state, cause }, 'health state changed')
    }
    if (changes.length > 0) database.announce(fleetChannel, '')
    remember(await listFleetStates(db))
    await deleteOldRows()
    return true
  }

  const deleteOldRows = async () => {
    const at = now().getTime()
    if (Math.abs(at - deletedAt) < housekeepingMs) return
    deletedAt = at
    await deleteFleetChangesBefore(db, new Date(at - keepChangesMs))
  }

  const job = createBackgroundJob(deps, {
    name: 'fleet-states',
    intervalMs,
    run: tick,
    async finish() {
      await observations.flush()
      if (!held) return
      await releaseLease(db, held).catch((error) =>
        deps.log.warn({ err: error, lease }, 'lease not released; it expires'),
      )
    },
  })

  return {
    ...observations,
    // A page asks twice at once: for what needs action, and for the sales of its stores.
    read: (client) =>
      readOnce(client ?? '', async () => {
        const health = await derive(client)
        const known: KnownStates = new Map(
          (await listFleetStates(db)).map((row) => [subjectKey(row), row]),
        )
        return sinceBegan(health, known)
      }),
    troubleOf: (client, cajaId) =>
      troubles.size === 0 ? undefined : troubles.get(boxKey({ client, cajaId })),
    async changesAfter(id, limit) {
      return (await listFleetChangesAfter(db, id, limit)).map(toChange)
    },
    lastChange: () => findLastFleetChange(db),
    history: async (wanted) => (await listFleetChanges(db, wanted)).map(toChange),
    watchFlows(watched, page) {
      flows = watched
      pageOfFlows = page
    },
    flowsPage: () => pageOfFlows,
    tick,
    start: job.start,
    async stop() {
      await job.stop()
      // Also what was recorded without a start.
      await observations.flush()
    },
  }
}

const afterMs = 1_000
/** Above the number of boxes that fail at once. Beyond it new ones are dropped until the next write. */
const pendingAtMost = 5_000

/** A crash loses the observations of the last second. */
function createObservationWriter(
  database: Database,
  now: () => Date,
  log: FleetDeps['log'],
): ObservationWriter {
  let refusals = new Map<string, NewRefusal>()
  let findings = new Map<string, NewFinding>()

  const write = async () => {
    const pending = { refusals, findings }
    refusals = new Map()
    findings = new Map()
    const { db } = database
    if (pending.refusals.size > 0) await saveRefusals(db, [...pending.refusals.values()])
    if (pending.findings.size > 0) await saveFindings(db, [...pending.findings.values()])
    return undefined
  }
  const isEmpty = () => refusals.size + findings.size === 0
  const writer = createBatchingWriter({ name: 'fleet observations', afterMs, isEmpty, write, log })
  const hasCapacity = <T>(map: Map<string, T>, key: string) =>
    map.has(key) || map.size < pendingAtMost

  return {
    recordRefusal(client, cajaId, code) {
      if (!concernsBox(code)) return
      const key = boxKey({ client, cajaId })
      if (!hasCapacity(refusals, key)) return
      const at = now()
      const known = refusals.get(key)
      const goesOn = known?.code === code
      refusals.set(key, {
        client,
        cajaId,
        code,
        since: goesOn ? known.since : at,
        at,
        count: goesOn ? known.count + 1 : 1,
      })
      writer.later()
    },
    recordFinding(finding) {
      const key = boxKey(finding)
      if (!hasCapacity(findings, key)) return
      findings.set(key, { ...finding, at: now() })
      writer.later()
    },
    flush: writer.flush,
  }
}
