import type { Database, Trx } from '../db/database.ts'
import type { ClientName } from '../domain/client-name.ts'
import { createBackgroundJob } from '../jobs/background-job.ts'
import { deleteTalliesBefore } from '../repositories/fleet/fleet-observations.ts'
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
import { acquireLease, isLeaseOf, releaseLease } from '../repositories/leases.ts'
import {
  type FleetChange,
  findChanges,
  type KnownStates,
  revive,
  sinceBegan,
  toChange,
} from './changes.ts'
import { deriveHealth } from './derive-health.ts'
import { createFleetNotes, type FleetNotes } from './notes.ts'
import type { FlowSeen } from './observations.ts'
import { observe } from './observe.ts'
import { type FleetHealth, type Health, subject, subjectKey } from './states.ts'
import { createUsualCharges } from './usual-charges.ts'

/**
 * The states of boxes, connections, provider calls, flows and destinations. Each process derives them from stored
 * observations; the owner of a lease stores the changes.
 */
export type Fleet = FleetNotes & {
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

export type FleetDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  processId: string
  log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
}

/** The delay until a change is seen. A silent terminal must be known within half a minute. */
const intervalMs = 3_000
/** Kept between runs, so that one process writes all changes until it stops or its lease expires. */
const lease = 'fleet'
const housekeepingMs = 3600_000
const keepTalliesMs = 3600_000
const keepChangesMs = 90 * 24 * 3600_000

export function createFleet(deps: FleetDeps): Fleet {
  const { database, now } = deps
  const { db } = database
  const notes = createFleetNotes(database, now, deps.log)
  const usual = createUsualCharges()
  let pageOfFlows: string | undefined
  let flows: (() => Promise<readonly FlowSeen[]>) | undefined
  let troubles = new Map<string, Health>()
  let keptHouseAt = Number.NEGATIVE_INFINITY

  const derive = async (client?: ClientName) => {
    await notes.flush()
    const at = now()
    const seen = await observe(db, { usual, flows }, at, client)
    return deriveHealth(seen, at)
  }

  const remember = (rows: readonly FleetStateRow[]) => {
    const boxes = rows.filter(
      ({ kind, state }) => kind === 'box' && (state === 'down' || state === 'attention'),
    )
    troubles = new Map(boxes.map((row) => [subjectKey(row), revive(row)]))
  }

  const keepChanges = async (trx: Trx, health: FleetHealth, token: number) => {
    if (!(await isLeaseOf(trx, { name: lease, owner: deps.processId, token }))) return undefined
    const known = await listFleetStates(trx)
    const changes = findChanges(known, health, { hasFlows: flows !== undefined })
    await writeFleetChanges(trx, changes)
    return changes
  }

  const tick = async () => {
    const held = { name: lease, owner: deps.processId, now: now() }
    const token = await acquireLease(db, held)
    if (token === undefined) {
      remember(await listFleetStates(db))
      return false
    }
    const health = await derive()
    const changes = await database.transaction((trx) => keepChanges(trx, health, token))
    if (changes === undefined) return false
    for (const { kind, scope, name, from_state, state, cause } of changes) {
      // A first observation is not a change.
      if (from_state === null) continue
      deps.log.info({ kind, scope, name, from: from_state, state, cause }, 'a state has changed')
    }
    if (changes.length > 0) database.announce(fleetChannel, '')
    remember(await listFleetStates(db))
    await keepHouse()
    return true
  }

  const keepHouse = async () => {
    const at = now().getTime()
    if (Math.abs(at - keptHouseAt) < housekeepingMs) return
    keptHouseAt = at
    await deleteTalliesBefore(db, new Date(at - keepTalliesMs))
    await deleteFleetChangesBefore(db, new Date(at - keepChangesMs))
  }

  const job = createBackgroundJob(deps, {
    name: 'fleet-states',
    intervalMs,
    run: tick,
    async finish() {
      await notes.flush()
      await releaseLease(db, { name: lease, owner: deps.processId }).catch((error) =>
        deps.log.warn({ err: error, lease }, 'a lease was not given back; it will expire'),
      )
    },
  })

  return {
    ...notes,
    async read(client) {
      const health = await derive(client)
      const known: KnownStates = new Map(
        (await listFleetStates(db)).map((row) => [subjectKey(row), row]),
      )
      return sinceBegan(health, known)
    },
    troubleOf: (client, cajaId) => troubles.get(subjectKey(subject('box', client, cajaId))),
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
      await notes.flush()
    },
  }
}
