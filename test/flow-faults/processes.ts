import { setTimeout as wait } from 'node:timers/promises'
import type { Control } from './action.ts'
import type { Where } from './child.ts'
import { type Child, startChild } from './child-process.ts'

export type RunningProcess = { child: Child; processId: string }

/** A process that is killed during a request does not answer. */
const longestAnswerMs = 3_000

/** The processes of a round: those that run, and one that is loaded in advance. */
export function createProcesses(where: Omit<Where, 'child'>) {
  let next = startChild()
  let aheadMs = 0
  let asked = 0
  const members: RunningProcess[] = []
  const endedIds: string[] = []
  const errors: string[] = []
  const warnings = new Map<string, number>()
  const passed = new Set<string>()
  next.loaded.catch(() => undefined)

  const collectReports = (child: Child) => {
    errors.push(...child.errors)
    for (const step of child.passed) passed.add(step)
    for (const [what, count] of child.warnings) {
      warnings.set(what, (warnings.get(what) ?? 0) + count)
    }
  }

  const control: Control = async (method, path, body) => {
    const addresses = members.flatMap(({ child }) => child.address() ?? [])
    asked += 1
    const address = addresses[asked % Math.max(1, addresses.length)]
    if (address === undefined) return undefined
    try {
      const answer = await fetch(`${address}${path}`, {
        method,
        signal: AbortSignal.timeout(longestAnswerMs),
        ...(body && {
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }),
      })
      const text = await answer.text()
      return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
    } catch {
      return undefined
    }
  }

  return {
    members,
    /** Owner names in the leases of processes that ended. */
    endedIds,
    errors,
    warnings,
    /** Steps that processes which ended had reached. */
    passed,
    control,
    async fill(count: number) {
      while (members.length < count) {
        const child = next
        await child.loaded
        next = startChild()
        next.loaded.catch(() => undefined)
        members.push({ child, processId: await child.begin(where) })
        // Not before: files that it finds at its start have the time of the machine's clock.
        void child.polling.then(
          () => child.setClock(aheadMs),
          () => undefined,
        )
      }
    },
    setClock(ms: number) {
      aheadMs = ms
      for (const { child } of members) if (child.address() !== undefined) child.setClock(ms)
    },
    /** The open deliveries, from the first process that answers. */
    async findOpenDeliveries(): Promise<string[]> {
      for (const { child } of members) {
        const deliveries =
          child.address() === undefined ? undefined : await child.findOpenDeliveries()
        if (deliveries) return deliveries
      }
      await wait(100)
      return ['no process lists its open deliveries']
    },
    async awaitEnd({ child, processId }: RunningProcess) {
      await child.ended
      members.splice(
        members.findIndex((member) => member.child === child),
        1,
      )
      endedIds.push(processId)
      collectReports(child)
    },
    async end() {
      for (const { child } of members) child.kill()
      next.kill()
      await Promise.all([next.ended, ...members.map(({ child }) => child.ended)])
      for (const { child } of members) collectReports(child)
    },
  }
}

export type Processes = ReturnType<typeof createProcesses>
