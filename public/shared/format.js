import { locale } from './i18n.js'
import { html } from './lit.js'
import { dayOf, now, shopZone } from './shop-clock.js'

const formatters = new Map()

/**
 * A formatter of Intl for the reader's language, and for times where the shops are; made once, for making one takes longer
 * than using it a hundred times.
 */
export function formatter(kind, options = {}) {
  const key = JSON.stringify([kind, locale(), shopZone(), options])
  const known = formatters.get(key)
  if (known) return known
  const zone = kind === 'DateTimeFormat' ? { timeZone: shopZone() } : {}
  const made = new Intl[kind](locale(), { ...zone, ...options })
  formatters.set(key, made)
  return made
}

export function number(value) {
  return formatter('NumberFormat').format(value)
}

/** Short enough for an axis: `12 k`. */
export function shortNumber(value) {
  return formatter('NumberFormat', { notation: 'compact', maximumFractionDigits: 1 }).format(value)
}

export function percent(part, whole) {
  return formatter('NumberFormat', { style: 'percent', maximumFractionDigits: 1 }).format(
    part / whole,
  )
}

/** A moment as an element: short on the page, whole when one asks for it. */
export function time(iso) {
  return iso
    ? html`<time datetime=${iso} title=${fullTime(iso)}>${clock(iso)}</time>`
    : html`<span class="soft">—</span>`
}

/** A moment as text, for within a sentence. Today shows the time only. */
export function clock(iso) {
  const date = new Date(iso)
  const isToday = dayOf(date.getTime()) === dayOf()
  return formatter('DateTimeFormat', {
    ...(!isToday && { day: '2-digit', month: '2-digit', year: '2-digit' }),
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  }).format(date)
}

/** A moment as text to the minute; another day with its date. */
export function shortClock(iso) {
  const date = new Date(iso)
  const isToday = dayOf(date.getTime()) === dayOf()
  return formatter('DateTimeFormat', {
    ...(!isToday && { day: '2-digit', month: '2-digit' }),
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).format(date)
}

/** Date and time with seconds, where the shops are. */
export function fullTime(iso) {
  return formatter('DateTimeFormat', {
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
  return html`<time datetime=${iso} title=${fullTime(iso)}>${relativeText(iso)}</time>`
}

export function relativeText(iso) {
  const distanceMs = new Date(iso).getTime() - now()
  const [unit, sizeMs] = units.find(([, size]) => Math.abs(distanceMs) >= size) ?? units[3]
  const format = formatter('RelativeTimeFormat', { numeric: 'auto' })
  return format.format(Math.round(distanceMs / sizeMs), unit)
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
  return formatter('NumberFormat', {
    style: 'unit',
    unit,
    unitDisplay: 'short',
    maximumFractionDigits: digits,
  }).format(ms / size)
}

/** A name from outside, fenced so that its writing direction cannot disturb the text around it. */
export function name(text, { class: classes = '' } = {}) {
  return html`<bdi class=${classes}>${text}</bdi>`
}

/** An id or code in fixed width, breakable anywhere. */
export function code(text) {
  return text === null || text === undefined || text === ''
    ? html`<span class="soft">—</span>`
    : html`<code><bdi>${text}</bdi></code>`
}

/** A day of the calendar (`2026-11-22`) as people write it, wherever the reader is. */
export function calendarDay(day) {
  return formatter('DateTimeFormat', { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date(day))
}
