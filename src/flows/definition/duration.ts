const units: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** A duration in a flow file: `500ms`, `30s`, `10m`, `24h`, `7d`; a number without unit is milliseconds. */
export const durationPattern = /^\d{1,9}(\.\d{1,3})?(ms|s|m|h|d)$/

/** Milliseconds, rounded; undefined when the text is not a duration. */
export function parseDuration(given: string | number): number | undefined {
  if (typeof given === 'number') return Number.isFinite(given) ? Math.round(given) : undefined
  if (!durationPattern.test(given)) return undefined
  const unit = units[given.replace(/^[\d.]+/, '')]
  return unit && Math.round(Number.parseFloat(given) * unit)
}

const unitsByWord: Readonly<Record<string, string>> = {
  sec: 's',
  secs: 's',
  second: 's',
  seconds: 's',
  seg: 's',
  segs: 's',
  segundo: 's',
  segundos: 's',
  min: 'm',
  mins: 'm',
  minute: 'm',
  minutes: 'm',
  minuto: 'm',
  minutos: 'm',
  hs: 'h',
  hr: 'h',
  hrs: 'h',
  hour: 'h',
  hours: 'h',
  hora: 'h',
  horas: 'h',
  day: 'd',
  days: 'd',
  dia: 'd',
  dias: 'd',
  día: 'd',
  días: 'd',
}

/** A guess for a wrong duration such as `60`, `30 sec` or `5 minutos`; undefined when no guess is possible. */
export function guessDuration(given: string | number): string | undefined {
  const [, amount, word = ''] = /^(\d+(?:[.,]\d+)?)\s*(\p{L}*)$/u.exec(String(given).trim()) ?? []
  if (amount === undefined) return undefined
  const lower = word.toLowerCase()
  const unit = lower === '' || Object.hasOwn(units, lower) ? lower || 's' : unitsByWord[lower]
  return unit && `${amount.replace(',', '.')}${unit}`
}
