/** Time zones of the provider's countries; for large countries that of the capital's region. */
const zoneOfSite: Record<string, string> = {
  MLA: 'America/Argentina/Buenos_Aires',
  MLB: 'America/Sao_Paulo',
  MLC: 'America/Santiago',
  MLM: 'America/Mexico_City',
  MLU: 'America/Montevideo',
  MCO: 'America/Bogota',
  MPE: 'America/Lima',
}

/** The zone of a store without one of its own, by the country of its account; Argentina's if that is unknown. */
export function timeZoneOfSite(siteId: string | null): string {
  return zoneOfSite[siteId ?? ''] ?? 'America/Argentina/Buenos_Aires'
}

export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    // An offset has no daylight saving time, and is no place.
    return /^[A-Z]/i.test(name)
  } catch {
    return false
  }
}

/** The day (`2026-11-21`) in a zone at a moment. */
export function dayIn(timeZone: string, at: Date): string {
  return new Date(at.getTime() + offsetMs(timeZone, at)).toISOString().slice(0, 10)
}

/** From the first moment of a day in a zone to that of the next one: 23 or 25 hours when the clocks change. */
export function spanOfDay(timeZone: string, day: string): { from: Date; to: Date } {
  const next = new Date(Date.parse(`${day}T00:00:00Z`) + 24 * 3_600_000).toISOString().slice(0, 10)
  return { from: startOf(timeZone, day), to: startOf(timeZone, next) }
}

function startOf(timeZone: string, day: string): Date {
  const asUtc = Date.parse(`${day}T00:00:00Z`)
  const guess = new Date(asUtc - offsetMs(timeZone, new Date(asUtc)))
  const exact = new Date(asUtc - offsetMs(timeZone, guess))
  // The clocks skip this midnight: the day begins when they change.
  return dayIn(timeZone, exact) < day ? new Date(exact.getTime() + 3_600_000) : exact
}

const formats = new Map<string, Intl.DateTimeFormat>()

/** How far the clocks of a zone are ahead of UTC at a moment. */
function offsetMs(timeZone: string, at: Date): number {
  let format = formats.get(timeZone)
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
    })
    formats.set(timeZone, format)
  }
  const part = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]))
  const local = `${part.year}-${part.month}-${part.day}T${part.hour}:${part.minute}:${part.second}Z`
  return Date.parse(local) - Math.floor(at.getTime() / 1000) * 1000
}
