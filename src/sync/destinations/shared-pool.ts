type Shared = { pool: unknown; users: number; close(): Promise<void> }

const pools = new Map<string, Shared>()

/**
 * The pool of this key, which all who ask for it share; the first opens it. `leave` closes it when nobody else has it any
 * longer. A key is for pools of one kind.
 */
export function sharePool<T>(
  key: string,
  open: () => T,
  close: (pool: T) => Promise<void>,
): { pool: T; leave(): Promise<void> } {
  const known = pools.get(key)
  const shared = known ?? createShared(open(), close)
  pools.set(key, shared)
  shared.users += 1
  let isLeft = false
  return {
    pool: shared.pool as T,
    async leave() {
      if (isLeft) return
      isLeft = true
      shared.users -= 1
      if (shared.users > 0) return
      pools.delete(key)
      await shared.close()
    },
  }
}

function createShared<T>(pool: T, close: (pool: T) => Promise<void>): Shared {
  return { pool, users: 0, close: () => close(pool) }
}
