/** How many may wait or listen at a time. */
export type PlaceLimits = { perOwner: number; total: number }

export type Places = {
  /** Takes a place; answers how to give it back, or which limit leaves none. Giving back twice counts once. */
  take(owner: string): (() => void) | keyof PlaceLimits
  /** How many are taken. */
  count(): number
}

/** Places for requests that stay: counted for each owner, so that one takes nothing from the others, and in all. */
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
