/** How many requests may stay open at a time. */
export type PlaceLimits = { perOwner: number; total: number }

export type Places = {
  /** Takes a place. Returns the function that releases it, or which limit is reached. A second release has no effect. */
  take(owner: string): (() => void) | keyof PlaceLimits
  /** How many are taken. */
  count(): number
}

/** A limit of requests that stay open: for each owner, so that one owner takes no place from others, and in total. */
export function createPlaces(limits: PlaceLimits): Places {
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
