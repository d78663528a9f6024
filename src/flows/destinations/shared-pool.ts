type Shared = { pool: unknown; users: number; close(): Promise<void> }

const pools = new Map<string, Shared>()

/**
 * Returns the shared pool of this key and opens it for the first user. `release` closes it after the last user. A key belongs to
 * one kind of pool.
 */
export function sharePool<T>(
  key: string,
  open: () => T,
  close: (pool: T) => Promise<void>,
): { pool: T; release(): Promise<void> } {
  const known = pools.get(key)
  const shared = known ?? createShared(open(), close)
  pools.set(key, shared)
  shared.users += 1
  let isLeft = false
  return {
    pool: shared.pool as T,
    async release() {
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
