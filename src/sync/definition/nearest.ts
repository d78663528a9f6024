/** The candidate that is most likely meant; undefined when none is near. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const given = plain(word)
  let best: { candidate: string; distance: number } | undefined
  for (const candidate of candidates) {
    const meant = plain(candidate)
    const distance = given === meant ? 0 : editDistance(given, meant)
    const tolerated = Math.max(1, Math.floor(Math.min(given.length, meant.length) / 3))
    if (distance <= tolerated && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) {
      best = { candidate, distance }
    }
  }
  return best?.candidate
}

/** `poll_interval`, `poll-interval` and `PollInterval` mean one thing. */
function plain(word: string): string {
  return word
    .slice(0, 64)
    .replace(/[\s_-]/g, '')
    .toLowerCase()
}

/** Letters to insert, drop, replace or swap with the next one (optimal string alignment). */
function editDistance(left: string, right: string): number {
  let before: number[] = []
  let above = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1]
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      current[column] = Math.min(
        at(above, column) + 1,
        at(current, column - 1) + 1,
        at(above, column - 1) + (same ? 0 : 1),
        swapped ? at(before, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = above
    above = current
  }
  return at(above, right.length)
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY
}
