import type { Database } from '../db/database.ts'
import type { ClientName } from '../domain/client-name.ts'
import type { ErrorCode } from '../errors/app-error.ts'
import { createBatchingWriter } from '../jobs/batching-writer.ts'
import {
  addTallies,
  type NewFinding,
  type NewRefusal,
  noteFindings,
  noteRefusals,
  type Tally,
} from '../repositories/fleet/fleet-observations.ts'
import { tellsOfBox } from './derive-box.ts'
import { slotMs } from './health-limits.ts'

type Log = { warn(fields: object, message: string): void }

/** The result of an attempt of a call to the provider. */
export type CallNote = {
  operation: string
  status: number | null
  code: string | null
  failure: string | null
}

/** Observations without a row of their own. They are written a moment later; no caller waits for them or fails with them. */
export type FleetNotes = {
  noteCall(call: CallNote): void
  /** A charge that ended with an error. Errors that say nothing about the box are left out. */
  noteRefusal(client: ClientName, cajaId: string, code: ErrorCode): void
  /** What a read found about the terminal of a box. */
  noteFinding(finding: Omit<NewFinding, 'at'>): void
  /** Writes what is pending. Never fails. */
  flush(): Promise<void>
}

const afterMs = 1_000
/** Above the number of boxes that fail at once. Beyond it new ones are dropped until the next write. */
const pendingAtMost = 5_000
const longestText = 200

/** A crash loses the observations of the last second. */
export function createFleetNotes(database: Database, now: () => Date, log: Log): FleetNotes {
  let tallies = new Map<string, Tally>()
  let refusals = new Map<string, NewRefusal>()
  let findings = new Map<string, NewFinding>()

  const write = async () => {
    const pending = { tallies, refusals, findings }
    tallies = new Map()
    refusals = new Map()
    findings = new Map()
    const { db } = database
    if (pending.tallies.size > 0) await addTallies(db, [...pending.tallies.values()])
    if (pending.refusals.size > 0) await noteRefusals(db, [...pending.refusals.values()])
    if (pending.findings.size > 0) await noteFindings(db, [...pending.findings.values()])
    return undefined
  }
  const isEmpty = () => tallies.size + refusals.size + findings.size === 0
  const writer = createBatchingWriter({ name: 'fleet observations', afterMs, isEmpty, write, log })
  const hasRoom = <T>(map: Map<string, T>, key: string) => map.has(key) || map.size < pendingAtMost

  return {
    noteCall({ operation, status, code, failure }) {
      const slot = new Date(Math.floor(now().getTime() / slotMs) * slotMs)
      const key = `${slot.getTime()} ${operation}`
      const tally = tallies.get(key) ?? {
        operation,
        slot,
        answered: 0,
        failed: 0,
        throttled: 0,
        lastCode: null,
      }
      if (status === 429) tally.throttled += 1
      else if (status === null || status >= 500) tally.failed += 1
      else tally.answered += 1
      if (status === null || status === 429 || status >= 500) {
        tally.lastCode = plain(code ?? failure ?? String(status))
      }
      tallies.set(key, tally)
      writer.later()
    },
    noteRefusal(client, cajaId, code) {
      if (!tellsOfBox(code)) return
      const key = JSON.stringify([client, cajaId])
      if (!hasRoom(refusals, key)) return
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
    noteFinding(finding) {
      const key = JSON.stringify([finding.client, finding.cajaId])
      if (!hasRoom(findings, key)) return
      findings.set(key, { ...finding, at: now() })
      writer.later()
    },
    flush: writer.flush,
  }
}

/** The provider's text without the characters that the database refuses. */
function plain(text: string): string {
  return text
    .replace(/\p{Cc}/gu, '')
    .slice(0, longestText)
    .toWellFormed()
}
