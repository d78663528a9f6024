import { createTenure, type Tenure, type TenureDeps } from './tenure.ts'

export type Tenures = {
  /**
   * The tenure of this name, which all in this process who ask for it share. Its lease is given back when the last of them
   * stops. `onBegin` is called with each new term, and when there is one already.
   */
  share(name: string, onBegin: () => void): Tenure
}

type Shared = {
  /** Undefined while the one before it gives the lease back. */
  tenure: Tenure | undefined
  opened: Promise<void>
  users: Set<() => void>
}

export function createTenures(deps: TenureDeps): Tenures {
  const shared = new Map<string, Shared>()
  /** Those that give their lease back, which is of this process: it would take it from the next one here. */
  const ending = new Map<string, Promise<void>>()

  const open = (name: string): Shared => {
    const users = new Set<() => void>()
    const begin = () => {
      const tenure = createTenure(deps, name, () => {
        for (const onBegin of users) onBegin()
      })
      own.tenure = tenure
    }
    const own: Shared = { tenure: undefined, opened: Promise.resolve(), users }
    const before = ending.get(name)
    if (before) own.opened = before.then(begin)
    else begin()
    return own
  }

  const end = (name: string, own: Shared): Promise<void> => {
    if (shared.get(name) !== own) return ending.get(name) ?? Promise.resolve()
    shared.delete(name)
    const ended = own.opened.then(() => own.tenure?.stop())
    ending.set(name, ended)
    void ended.then(() => ending.get(name) === ended && ending.delete(name))
    return ended
  }

  return {
    share: (name, onBegin) => {
      const known = shared.get(name)
      const own = known ?? open(name)
      shared.set(name, own)
      // A function of its own, since two may share one.
      const begin = () => onBegin()
      own.users.add(begin)
      if (known?.tenure?.current()) queueMicrotask(begin)
      return {
        current: () => own.tenure?.current(),
        stop: async () => {
          own.users.delete(begin)
          if (own.users.size === 0) await end(name, own)
        },
      }
    },
  }
}
