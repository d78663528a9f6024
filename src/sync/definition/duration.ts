const units: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** What a duration looks like in a flow file: `500ms`, `30s`, `10m`, `24h`, `7d`; a bare number is milliseconds. */
export const durationPattern = /^\d{1,9}(\.\d{1,3})?(ms|s|m|h|d)$/

/** Milliseconds, rounded to whole ones; undefined when the text is no duration. */
export function parseDuration(given: string | number): number | undefined {
  if (typeof given === 'number') return Number.isFinite(given) ? Math.round(given) : undefined
  if (!durationPattern.test(given)) return undefined
  const unit = units[given.replace(/^[\d.]+/, '')]
  return unit && Math.round(Number.parseFloat(given) * unit)
}
