import type { Database, Trx } from '../db/database.ts'
import type { ClientName } from '../domain/client-name.ts'
import { changesBetween } from '../domain/event-types.ts'
import type { ErrorCode } from '../errors/app-error.ts'
import { type BackgroundJob, createBackgroundJob } from '../jobs/background-job.ts'
import { createBatchingWriter } from '../jobs/batching-writer.ts'
import { createSingleFlight } from '../jobs/single-flight.ts'
import { insertEvent } from '../repositories/events/event-log.ts'
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
import { type BoxHealth, type FleetHealth, type Health, subjectKey } from './health-states.ts'
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

type FleetDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  processId: string
  log: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
}

/** The delay until a change is seen. A silent terminal, one after `silentAfterMs`, must be known within half a minute. */
const intervalMs = 6_000
/** The same while no charge is open: one that begins meanwhile is silent only after `silentAfterMs`. */
const idleMs = 15_000
/** Kept between runs, so that one process writes all changes until it stops or its lease expires. */
const lease = 'fleet'
const housekeepingMs = 3600_000
const keepChangesMs = 90 * 24 * 3600_000

/**
 * The states of boxes, connections, flows and destinations. Each process derives them from stored
 * observations; the owner of a lease stores the changes.
 */
export class Fleet implements ObservationWriter {
  readonly #deps: FleetDeps
  readonly #observations: ObservationWriter
  readonly #job: BackgroundJob<boolean>
  readonly #readOnce = createSingleFlight()
  #pageOfFlows: string | undefined
  #flows: (() => Promise<readonly FlowSeen[]>) | undefined
  #troubles = new Map<string, Health>()
  #held: LeaseToken | undefined
  #deletedAt = Number.NEGATIVE_INFINITY
  #hasOpenCharges = false

  constructor(deps: FleetDeps) {
    this.#deps = deps
    this.#observations = createObservationWriter(deps.database, deps.now, deps.log)
    this.#job = createBackgroundJob(deps, {
      name: 'fleet-states',
      intervalMs: idleMs,
      untilNextMs: async () => (this.#hasOpenCharges ? intervalMs : idleMs),
      run: () => this.tick(),
      finish: () => this.#finish(),
    })
  }

  recordRefusal(client: ClientName, cajaId: string, code: ErrorCode): void {
    this.#observations.recordRefusal(client, cajaId, code)
  }

  recordFinding(finding: Omit<NewFinding, 'at'>): void {
    this.#observations.recordFinding(finding)
  }

  flush(): Promise<void> {
    return this.#observations.flush()
  }

  /** The current states of one client, or of all clients and the flows. */
  read(client?: ClientName): Promise<FleetHealth> {
    // A page asks twice at once: for what needs action, and for the sales of its stores.
    return this.#readOnce(client ?? '', async () => {
      const health = await this.#derive(client)
      const rows = await listFleetStates(this.#deps.database.db)
      const known: KnownStates = new Map(rows.map((row) => [subjectKey(row), row]))
      return sinceBegan(health, known)
    })
  }

  /** The state of a box a few seconds ago, from memory; undefined if it has no problem. */
  troubleOf(client: ClientName, cajaId: string): Health | undefined {
    return this.#troubles.size === 0 ? undefined : this.#troubles.get(boxKey({ client, cajaId }))
  }

  /** Changes after one, in their order, the same in every process. `lastChange` is the newest. */
  async changesAfter(id: number, limit: number): Promise<FleetChange[]> {
    return (await listFleetChangesAfter(this.#deps.database.db, id, limit)).map(toChange)
  }

  lastChange(): Promise<number> {
    return findLastFleetChange(this.#deps.database.db)
  }

  /** Changes, newest first. */
  async history(wanted: FleetChangesWanted): Promise<FleetChange[]> {
    return (await listFleetChanges(this.#deps.database.db, wanted)).map(toChange)
  }

  /** From now on the states of flows are derived too. `page` is the address of their page, if browsers can reach it. */
  watchFlows(flows: () => Promise<readonly FlowSeen[]>, page?: string): void {
    this.#flows = flows
    this.#pageOfFlows = page
  }

  flowsPage(): string | undefined {
    return this.#pageOfFlows
  }

  /** Derives the states and stores the changes, unless another process does. Returns whether it did. */
  async tick(): Promise<boolean> {
    const { database } = this.#deps
    const own = await this.#holdLease()
    if (!own) {
      this.#remember(await listFleetStates(database.db))
      return false
    }
    const health = await this.#derive()
    const known = await listFleetStates(database.db)
    if (this.#changesOf(known, health).length > 0) {
      const changes = await database.transaction((trx) => this.#keepChanges(trx, health, own))
      if (changes === undefined) return false
      this.#logChanges(changes)
      database.announce(fleetChannel, '')
      this.#remember(await listFleetStates(database.db))
    } else {
      this.#remember(known)
    }
    await this.#deleteOldRows()
    return true
  }

  start(): void {
    this.#job.start()
  }

  async stop(): Promise<void> {
    await this.#job.stop()
    // Also what was recorded without a start.
    await this.flush()
  }

  async #derive(client?: ClientName): Promise<FleetHealth> {
    await this.flush()
    const at = this.#deps.now()
    const seen = await readObservations(this.#deps.database.db, this.#flows, at, client)
    if (client === undefined) {
      const charges = seen.boxes.flatMap((box) => box.charges)
      this.#hasOpenCharges = charges.some(({ endedAt }) => endedAt === null)
    }
    return deriveHealth(seen, at)
  }

  #remember(rows: readonly FleetStateRow[]): void {
    const boxes = rows.filter(
      ({ kind, state }) => kind === 'box' && (state === 'down' || state === 'attention'),
    )
    this.#troubles = new Map(
      boxes.map((row) => [boxKey({ client: row.scope, cajaId: row.name }), revive(row)]),
    )
  }

  async #holdLease(): Promise<LeaseToken | undefined> {
    const { database, now, processId } = this.#deps
    const held = this.#held
    if (held && (await renewLease(database.db, held, { now: now(), lengthMs: leaseMs })))
      return held
    this.#held = await takeLease(database, { name: lease, owner: processId, now: now() })
    return this.#held
  }

  async #keepChanges(trx: Trx, health: FleetHealth, own: LeaseToken) {
    if (!(await keepLease(trx, own))) return undefined
    const changes = this.#changesOf(await listFleetStates(trx), health)
    await writeFleetChanges(trx, changes)
    await writeTerminalEvents(trx, changes, health.boxes)
    return changes
  }

  #changesOf(known: readonly FleetStateRow[], health: FleetHealth) {
    return findChanges(known, health, { hasFlows: this.#flows !== undefined })
  }

  #logChanges(changes: ReturnType<typeof findChanges>): void {
    for (const { kind, scope, name, from_state, state, cause } of changes) {
      // A first observation is not a change.
      if (from_state === null) continue
      const fields = { kind, scope, name, from: from_state, state, cause }
      this.#deps.log.info(fields, 'health state changed')
    }
  }

  async #deleteOldRows(): Promise<void> {
    const at = this.#deps.now().getTime()
    if (Math.abs(at - this.#deletedAt) < housekeepingMs) return
    this.#deletedAt = at
    await deleteFleetChangesBefore(this.#deps.database.db, new Date(at - keepChangesMs))
  }

  async #finish(): Promise<void> {
    await this.flush()
    if (!this.#held) return
    try {
      await releaseLease(this.#deps.database.db, this.#held)
    } catch (error) {
      this.#deps.log.warn({ err: error, lease }, 'lease not released; it expires')
    }
  }
}

/** A box that is new, or gone, is no change of its terminal. The lease of the fleet keeps the events of a box in their order. */
async function writeTerminalEvents(
  trx: Trx,
  changes: ReturnType<typeof findChanges>,
  boxes: readonly BoxHealth[],
): Promise<void> {
  for (const { at, kind, scope, name, from_state, from_cause, state, cause } of changes) {
    const box = boxes.find(({ client, cajaId }) => client === scope && cajaId === name)
    const changed = changesBetween({ state: from_state, cause: from_cause }, { state, cause })
    const isFirst = from_state === null
    if (kind !== 'box' || isFirst || !box || Object.keys(changed).length === 0) continue
    await insertEvent(trx, {
      client: box.client,
      sucursalId: box.sucursalId,
      cajaId: name,
      type: 'terminal.state_changed',
      at,
      resource: { type: 'terminal', id: name, version: null },
      orderId: null,
      changes: changed,
      data: {
        caja_id: name,
        sucursal_id: box.sucursalId,
        terminal_id: box.terminalId,
        state,
        cause,
      },
    })
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
