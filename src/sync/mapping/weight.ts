/** Of a value beside the characters of its text and name. */
const perValue = 8
/** Beyond what an item may have; deeper ones are refused elsewhere. */
const maxDepth = 64

/** About how many characters a value has as JSON. Counting ends a little above `most`, so that it never takes long. */
export function weightOf(value: unknown, most: number, depth = 0): number {
  if (typeof value === 'string') return perValue + value.length
  if (typeof value !== 'object' || value === null || depth > maxDepth) return perValue
  if (value instanceof Uint8Array) return perValue + value.length
  let weight = perValue
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && weight <= most; index += 1) {
      weight += weightOf(value[index], most - weight, depth + 1)
    }
    return weight
  }
  for (const name in value) {
    if (weight > most) break
    const field: unknown = (value as Record<string, unknown>)[name]
    weight += name.length + weightOf(field, most - weight, depth + 1)
  }
  return weight
}
