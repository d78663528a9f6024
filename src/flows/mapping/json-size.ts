/** Size of a value in addition to the characters of its text and name. */
const perValue = 8
/** Deeper than an item may be; another check refuses deeper values. */
const maxDepth = 64

/** Estimated number of characters of a value as JSON. Counting stops soon after `most`, to limit its time. */
export function estimateJsonSize(value: unknown, most: number, depth = 0): number {
  if (typeof value === 'string') return perValue + value.length
  if (typeof value !== 'object' || value === null || depth > maxDepth) return perValue
  if (value instanceof Uint8Array) return perValue + value.length
  let size = perValue
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && size <= most; index += 1) {
      size += estimateJsonSize(value[index], most - size, depth + 1)
    }
    return size
  }
  for (const name in value) {
    if (size > most) break
    const field: unknown = (value as Record<string, unknown>)[name]
    size += name.length + estimateJsonSize(field, most - size, depth + 1)
  }
  return size
}
