/** How many requests may stay open at a time. */
export type OpenRequestLimits = { perOwner: number; total: number }

export type OpenRequests = {
  /** Takes a place. Returns the function that releases it, or which limit is reached. A second release has no effect. */
  take(owner: string): (() => void) | keyof OpenRequestLimits
  /** How many are taken. */
  count(): number
}

/** A limit of requests that stay open: for each owner, so that one owner takes no place from others, and in total. */
export function limitOpenRequests(limits: OpenRequestLimits): OpenRequests {
  const byOwner = new Map<string, number>()
  let count = 0
  return {
    count: () => count,
    take(owner) {
      const own = byOwner.get(owner) ?? 0
      if (own >= limits.perOwner) return 'perOwner'
      if (count >= limits.total) return 'total'
      byOwner.set(owner, own + 1)
      count += 1
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        const left = (byOwner.get(owner) ?? 1) - 1
        if (left === 0) byOwner.delete(owner)
        else byOwner.set(owner, left)
        count -= 1
      }
    },
  }
}
