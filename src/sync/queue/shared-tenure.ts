import { createTenure, type Tenure, type TenureDeps } from './tenure.ts'

export type Tenures = {
  /**
   * The tenure of this name, which all in this process who ask for it share. Its lease is given back when the last of them
   * stops. `onBegin` is called with each new term, and when there is one already.
   */
  share(name: string, onBegin: () => void): Tenure
}

type Shared = { tenure: Tenure; users: Set<() => void>; stopped: Promise<void> | undefined }

export function createTenures(deps: TenureDeps): Tenures {
  const shared = new Map<string, Shared>()

  const open = (name: string): Shared => {
    const users = new Set<() => void>()
    const tenure = createTenure(deps, name, () => {
      for (const begin of users) begin()
    })
    return { tenure, users, stopped: undefined }
  }

  return {
    share: (name, onBegin) => {
      const known = shared.get(name)
      const own = known ?? open(name)
      shared.set(name, own)
      // A function of its own, since two may share one.
      const begin = () => onBegin()
      own.users.add(begin)
      if (known?.tenure.current()) queueMicrotask(begin)
      return {
        current: () => own.tenure.current(),
        stop: async () => {
          own.users.delete(begin)
          if (own.users.size > 0) return
          if (shared.get(name) === own) shared.delete(name)
          own.stopped ??= own.tenure.stop()
          await own.stopped
        },
      }
    },
  }
}
