/**
 * What time it is, and where: the service's clock and the zone of the shops, not those of the machine that shows the page. A
 * tablet in a shop may be an hour wrong, and the office may be in another country.
 */
const dayMs = 24 * 3_600_000
let aheadMs = 0
let zone

/** Answers tell the time to the second; a clock that is right within this is believed. */
const believedMs = 30_000

/** Of each answer: the time that its head tells. */
export function noteServerTime(date) {
  const ahead = Date.parse(date ?? '') - Date.now()
  if (!Number.isNaN(ahead)) aheadMs = Math.abs(ahead) > believedMs ? ahead : 0
}

/** The zone of the shops; null: that of the browser. */
export function setZone(name) {
  zone = name ?? undefined
}

export function shopZone() {
  return zone
}

/** The zone that times are shown in. */
export function shownZone() {
  return zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone
}

export function now() {
  return Date.now() + aheadMs
}

/** `YYYY-MM-DD` of a moment, where the shops are. */
export function dayOf(at = now()) {
  return new Date(wallOf(at)).toISOString().slice(0, 10)
}

/** The hour that it is at a moment, where the shops are. */
export function hourOf(at) {
  return new Date(wallOf(new Date(at).getTime())).getUTCHours()
}

/** Midnight of `YYYY-MM-DD` at the shops, moved by whole days, as the API takes it; undefined for another shape. */
export function midnight(day, moveDays = 0) {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(day ?? '')
  if (!match) return undefined
  const wall = Date.UTC(Number(match[1]), Number(match[2]) - 1, Number(match[3]) + moveDays)
  if (Number.isNaN(wall)) return undefined
  // As src/domain/time-zone.ts: of two midnights the first; a midnight that the clocks skip by the offset before the change.
  const [before, after] = [wall - dayMs, wall + dayMs].map(offsetAt)
  const fits = [before, after].filter((offset) => offsetAt(wall - offset) === offset)
  return new Date(wall - (fits.length === 0 ? before : Math.max(...fits))).toISOString()
}

export function startOfToday() {
  return midnight(dayOf())
}

/** How far the clocks of the shops are ahead of UTC at a moment, in ms. */
function offsetAt(at) {
  return wallOf(at) - at
}

/** What the clock on the wall shows at a moment, as if it were UTC. */
function wallOf(at) {
  const parts = clockOn().formatToParts(at)
  const { year, month, day, hour, minute, second } = Object.fromEntries(
    parts.map(({ type, value }) => [type, Number(value)]),
  )
  return Date.UTC(year, month - 1, day, hour, minute, second)
}

let made
let madeFor

function clockOn() {
  if (made && madeFor === zone) return made
  madeFor = zone
  made = new Intl.DateTimeFormat('en', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  return made
}
