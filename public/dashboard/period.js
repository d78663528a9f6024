import { dayOf, midnight, now } from '../shared/shop-clock.js'

/** The spans that have a name; another one is two days of the calendar. */
export const periods = ['today', 'yesterday', 'week', 'month']

const dayMs = 86_400_000
/** The service counts 32 days at most, whatever the clocks do. */
const longestDays = 31

/**
 * The span that the address asks for, by the clock of the shops: `{ name, first, last, from, to, before }`. `first` and `last` are days
 * of the calendar, `from` and `to` moments; `to` is undefined while the span goes on. `before` is the span of the same length before it.
 */
export function periodOf({ period, from, to }) {
  if (midnight(from) && midnight(to) && from <= to) {
    const first = from < dayFrom(to, 1 - longestDays) ? dayFrom(to, 1 - longestDays) : from
    return spanOf('custom', first, to)
  }
  const today = dayOf()
  if (period === 'yesterday') return spanOf(period, dayFrom(today, -1), dayFrom(today, -1))
  if (period === 'week') return spanOf(period, dayFrom(today, -6), today)
  if (period === 'month') return spanOf(period, `${today.slice(0, 8)}01`, today)
  return spanOf('today', today, today)
}

function spanOf(name, first, last) {
  const days = daysBetween(first, last) + 1
  const isOver = last < dayOf()
  const from = midnight(first)
  const to = isOver ? midnight(last, 1) : undefined
  const back = name === 'month' ? monthBefore(first) : dayFrom(first, -days)
  const backFrom = midnight(back)
  // While the span goes on, as much of the one before: half a day is not less than a whole one.
  const lengthMs = (to ? Date.parse(to) : now()) - Date.parse(from)
  const backTo = new Date(Math.min(Date.parse(backFrom) + lengthMs, Date.parse(from))).toISOString()
  return { name, first, last, days, from, to, before: { from: backFrom, to: backTo } }
}

/** A day of the calendar, moved by whole days. */
function dayFrom(day, move) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + move * dayMs).toISOString().slice(0, 10)
}

function daysBetween(first, last) {
  return (Date.parse(`${last}T00:00:00Z`) - Date.parse(`${first}T00:00:00Z`)) / dayMs
}

/** The first day of the month before. */
function monthBefore(first) {
  return `${dayFrom(first, -1).slice(0, 8)}01`
}
