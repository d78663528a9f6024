import { h } from './dom.js'
import { locale } from './i18n.js'

export function number(value) {
  return new Intl.NumberFormat(locale()).format(value)
}

/** Short enough for an axis: `12 k`. */
export function shortNumber(value) {
  return new Intl.NumberFormat(locale(), { notation: 'compact', maximumFractionDigits: 1 }).format(
    value,
  )
}

export function percent(part, whole) {
  return new Intl.NumberFormat(locale(), { style: 'percent', maximumFractionDigits: 1 }).format(
    part / whole,
  )
}

/** A moment as an element: short on the page, whole when one asks for it. */
export function time(iso) {
  if (!iso) return h('span', { class: 'soft' }, '—')
  return h('time', { datetime: iso, title: fullTime(iso) }, clock(iso))
}

/** A moment as text, for within a sentence. Today shows the time only. */
export function clock(iso) {
  const date = new Date(iso)
  const isToday = date.toDateString() === new Date().toDateString()
  return new Intl.DateTimeFormat(locale(), {
    ...(!isToday && { day: '2-digit', month: '2-digit', year: '2-digit' }),
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  }).format(date)
}

/** Date and time with seconds, in the reader's time zone. */
export function fullTime(iso) {
  return new Intl.DateTimeFormat(locale(), {
    dateStyle: 'full',
    timeStyle: 'long',
    hourCycle: 'h23',
  }).format(new Date(iso))
}

const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1000],
]

/** How far away a moment is: `in 179 days`, `2 hours ago`. */
export function relative(iso) {
  const distanceMs = new Date(iso).getTime() - Date.now()
  const [unit, sizeMs] = units.find(([, size]) => Math.abs(distanceMs) >= size) ?? units[3]
  const format = new Intl.RelativeTimeFormat(locale(), { numeric: 'auto' })
  return h(
    'time',
    { datetime: iso, title: fullTime(iso) },
    format.format(Math.round(distanceMs / sizeMs), unit),
  )
}

/** A length of time: `320 ms`, `1.4 s`, `12 min`. */
export function duration(ms) {
  const [unit, size, digits] =
    ms < 1000
      ? ['millisecond', 1, 0]
      : ms < 60_000
        ? ['second', 1000, 1]
        : ms < 3_600_000
          ? ['minute', 60_000, 1]
          : ['hour', 3_600_000, 1]
  return new Intl.NumberFormat(locale(), {
    style: 'unit',
    unit,
    unitDisplay: 'short',
    maximumFractionDigits: digits,
  }).format(ms / size)
}

/** A name from outside, fenced so that its writing direction cannot disturb the text around it. */
export function name(text, props = {}) {
  return h('bdi', props, text)
}

/** An id or code in fixed width, breakable anywhere. */
export function code(text) {
  return text === null || text === undefined || text === ''
    ? h('span', { class: 'soft' }, '—')
    : h('code', null, h('bdi', null, text))
}

/** Local midnight of `YYYY-MM-DD`, moved by whole days, as the API takes it; undefined for another shape. */
export function midnight(day, moveDays = 0) {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(day ?? '')
  if (!match) return undefined
  const date = new Date(Number(match[1]), Number(match[2]) - 1, Number(match[3]) + moveDays)
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString()
}

/** Local midnight that began the present day. */
export function startOfToday() {
  const now = new Date()
  return new Date(now.getFullYear(), now.getMonth(), now.getDate()).toISOString()
}
