import { setTimeout as wait } from 'node:timers/promises'
import type { Where } from './child.ts'
import { type Child, startChild } from './child-process.ts'
import type { Control } from './deed.ts'

export type Member = { child: Child; processId: string }

/** Who is killed while he is asked does not answer. */
const longestAnswerMs = 3_000

/** The processes of a round: those that run, and one that has loaded already. */
export function createCrew(where: Omit<Where, 'child'>) {
  let next = startChild()
  let aheadMs = 0
  let asked = 0
  const members: Member[] = []
  const dead: string[] = []
  const errors: string[] = []
  const warnings = new Map<string, number>()
  const passed = new Set<string>()
  next.loaded.catch(() => undefined)

  const hear = (child: Child) => {
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
    /** Names under which processes that ended had their leases. */
    dead,
    errors,
    warnings,
    /** Steps that some of those that ended came to. */
    passed,
    control,
    async fill(count: number) {
      while (members.length < count) {
        const child = next
        await child.loaded
        next = startChild()
        next.loaded.catch(() => undefined)
        members.push({ child, processId: await child.begin(where) })
        // Not before: files that it finds at its start would be of another clock than its own.
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
    /** What is owed, as the first says that answers. */
    async findOwed(): Promise<string[]> {
      for (const { child } of members) {
        const owed = child.address() === undefined ? undefined : await child.findOwed()
        if (owed) return owed
      }
      await wait(100)
      return ['no process says what is owed']
    },
    async bury({ child, processId }: Member) {
      await child.ended
      members.splice(
        members.findIndex((member) => member.child === child),
        1,
      )
      dead.push(processId)
      hear(child)
    },
    async end() {
      for (const { child } of members) child.kill()
      next.kill()
      await Promise.all([next.ended, ...members.map(({ child }) => child.ended)])
      for (const { child } of members) hear(child)
    },
  }
}

export type Crew = ReturnType<typeof createCrew>
