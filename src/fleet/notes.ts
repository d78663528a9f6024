import type { Database } from '../db/database.ts'
import type { ClientName } from '../domain/client-name.ts'
import type { ErrorCode } from '../errors/app-error.ts'
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

/** How an attempt of a call to the provider went. */
export type CallNote = {
  operation: string
  status: number | null
  code: string | null
  failure: string | null
}

/** What no row tells otherwise. Taken down in memory, written together a moment later: nobody waits for it, or fails by it. */
export type FleetNotes = {
  noteCall(call: CallNote): void
  /** A charge that ended with an error; one that tells nothing about its box is left out. */
  noteRefusal(client: ClientName, cajaId: string, code: ErrorCode): void
  /** What somebody read about the terminals of a box. */
  noteFinding(finding: Omit<NewFinding, 'at'>): void
  /** Writes what was taken down, for somebody who wants to see it now. Never fails. */
  flush(): Promise<void>
}

const gatherMs = 1_000
/** More boxes than fail at once; beyond it the newest are not taken down until the next writing. */
const heldAtMost = 5_000
const longestText = 200

/** A crash loses the last second of what was taken down. */
export function createFleetNotes(database: Database, now: () => Date, log: Log): FleetNotes {
  let tallies = new Map<string, Tally>()
  let refusals = new Map<string, NewRefusal>()
  let findings = new Map<string, NewFinding>()
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  const write = async () => {
    clearTimeout(timer)
    timer = undefined
    const held = { tallies, refusals, findings }
    tallies = new Map()
    refusals = new Map()
    findings = new Map()
    const { db } = database
    try {
      if (held.tallies.size > 0) await addTallies(db, [...held.tallies.values()])
      if (held.refusals.size > 0) await noteRefusals(db, [...held.refusals.values()])
      if (held.findings.size > 0) await noteFindings(db, [...held.findings.values()])
    } catch (error) {
      log.warn({ err: error }, 'what was seen of boxes and calls is not on record')
    }
  }
  const flush = () => {
    writing = writing.then(write)
    return writing
  }
  const writeLater = () => {
    timer ??= setTimeout(() => void flush(), gatherMs).unref()
  }
  const hasRoom = <T>(map: Map<string, T>, key: string) => map.has(key) || map.size < heldAtMost

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
      writeLater()
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
      writeLater()
    },
    noteFinding(finding) {
      const key = JSON.stringify([finding.client, finding.cajaId])
      if (!hasRoom(findings, key)) return
      findings.set(key, { ...finding, at: now() })
      writeLater()
    },
    flush,
  }
}

/** Text of the provider's, as far as the database takes it. */
function plain(text: string): string {
  return text
    .replace(/\p{Cc}/gu, '')
    .slice(0, longestText)
    .toWellFormed()
}
