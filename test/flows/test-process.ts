import type { KyselyPlugin } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import type { Leader, Term } from '../../src/jobs/leader.ts'
import type { SendPermit } from '../../src/outbound/outbound.ts'
import { releasePollLeases } from '../../src/repositories/flows/leader-lease.ts'
import { createService, leading, openTerm, type Service } from './deliver-support.ts'

type MortalDatabase = Database & {
  /** The process dies at its `nth` statement or commit from now: before the statement, or after the commit. */
  dieAt(nth: number): void
  /** It dies now. */
  die(): void
  isDead(): boolean
  /** Whether it will die. */
  isDoomed(): boolean
}

/** A process that sends deliveries, and may die at any statement while others go on. */
export type TestProcess = { database: MortalDatabase; service: Service }

function mortal(database: Database): MortalDatabase {
  let left = Number.POSITIVE_INFINITY
  const isDead = () => left <= 0
  const live = () => {
    if (isDead()) throw new Error('the process is dead')
  }
  const step = () => {
    left -= 1
    live()
  }
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      step()
      return node
    },
    // A dead process reads no answer.
    transformResult: async ({ result }) => {
      live()
      return result
    },
  }
  return {
    ...database,
    db: database.db.withPlugin(plugin),
    async transaction(work) {
      live()
      const result = await database.transaction((trx) => work(trx.withPlugin(plugin)))
      // Committed, and it never learns that.
      step()
      return result
    },
    dieAt: (nth) => {
      if (!isDead()) left = nth
    },
    die: () => {
      left = 0
    },
    isDead,
    isDoomed: () => left !== Number.POSITIVE_INFINITY,
  }
}

/** It leads as long as it lives. */
function leadingWhile(isAlive: () => boolean): Leader {
  const permit: SendPermit = async () => (isAlive() ? isAlive : undefined)
  const term: Term = {
    ...openTerm,
    sending: (work) => work(permit),
    holds: async () => isAlive(),
    proof: () => (isAlive() ? null : undefined),
  }
  return { ...leading, current: () => (isAlive() ? term : undefined) }
}

export async function startProcess(database: Database): Promise<TestProcess> {
  const own = mortal(database)
  const service = createService(own, { leader: leadingWhile(() => !own.isDead()) })
  await service.start()
  return { database: own, service }
}

/** A process that follows a dead one, as the next leader does. */
export async function follow(database: Database, dead: TestProcess): Promise<TestProcess> {
  void dead.service.stop({ timeoutMs: 0 }).catch(() => {})
  await releasePollLeases(database.db)
  return await startProcess(database)
}

/** Whether the work ended before its process died. */
export async function ended(own: TestProcess, work: Promise<unknown>): Promise<boolean> {
  return await work.then(
    () => true,
    (error: unknown) => {
      if (own.database.isDead()) return false
      throw error
    },
  )
}
