import type { Trx } from '../../db/database.ts'
import { dayIn, spanOfDay } from '../../domain/time-zone.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { type ChargesQuery, findFirstCharge } from '../../repositories/closings/closing-charges.ts'
import {
  type ClosingPlace,
  type ClosingRow,
  findClosingEndingAfter,
  findFirstClosing,
  findLastClosing,
  findRequestedClosing,
} from '../../repositories/closings/closing-queries.ts'

type RequestedSpan = {
  businessDay: string
  /** Whether the day was requested; otherwise its times were. */
  isDay: boolean
  from: Date
  to: Date
  /** The time zone in which days begin. */
  timeZone: string
  /** `to`, or the current time while that is in the future. */
  until: Date
}

/** A month and a day, so that a whole month fits in any time zone. */
const longestSpanMs = 32 * 24 * 3_600_000
const beginningOfTime = new Date(0)

/** Time with charges that no closing covers. `businessDay` is that of the first of them. */
export type Uncovered = { from: Date; to: Date; businessDay: string }

/**
 * The time span that a request names.
 *
 * @throws VALIDATION_ERROR
 */
export function requestedSpanOf(
  {
    businessDay,
    from,
    to,
  }: { businessDay?: string | undefined; from: Date | undefined; to: Date | undefined },
  timeZone: string,
  now: Date,
): RequestedSpan {
  if (businessDay !== undefined) {
    if (from || to) throw invalid('from', { code: 'SPAN_AND_DAY' })
    const day = spanOfDay(timeZone, businessDay)
    if (day.from >= now) throw invalid('business_day', { code: 'DAY_NOT_BEGUN' })
    return { businessDay, isDay: true, timeZone, ...day, until: earlier(day.to, now) }
  }
  if (!from || !to) throw invalid('business_day', { code: 'DAY_OR_SPAN' })
  if (from >= now) throw invalid('from', { code: 'FROM_IN_FUTURE' })
  const lengthMs = to.getTime() - from.getTime()
  if (!(lengthMs > 0 && lengthMs <= longestSpanMs)) {
    throw invalid('to', { code: 'SPAN_WRONG' })
  }
  return {
    businessDay: dayIn(timeZone, from),
    isDay: false,
    timeZone,
    from,
    to,
    until: earlier(to, now),
  }
}

/**
 * The existing closing that a request means, or the span of a new one. A new one begins where the last closing of the place
 * ended; time without charges in between is added to it. The first one of a place passes over no charge of its day; earlier
 * days may be closed afterwards, by a closing that ends where the first one begins (`before`).
 *
 * @throws CLOSING_OVERLAPS, CLOSING_GAP
 */
export async function resolveSpan(
  trx: Trx,
  place: ClosingPlace,
  charged: ChargesQuery['place'],
  requested: RequestedSpan,
): Promise<{ same: ClosingRow; isLast: boolean } | { from: Date; to: Date; before?: ClosingRow }> {
  const { from, until, isDay, timeZone } = requested
  const last = await findLastClosing(trx, place)
  const chargesIn = (begin: Date, end: Date) =>
    findFirstCharge(trx, { client: place.client, place: charged, from: begin, to: end })
  if (!last) {
    const { businessDay } = requested
    const midnight = spanOfDay(timeZone, businessDay).from
    if (!(await chargesIn(midnight, from))) return { from, to: until }
    throw gapOf({ from: midnight, to: from, businessDay })
  }
  const found = await findRequestedClosing(trx, place, requested)
  // The rest of a day is not the whole time from its midnight.
  const same = found && (isDay || found.from_at <= from) ? found : undefined
  const isLast = same?.id === last.id
  if (same && (same.to_at >= until || (isLast && same.state !== 'signed'))) return { same, isLast }
  const first = await findFirstClosing(trx, place)
  if (first && until <= first.from_at && (await chargesIn(from, first.from_at))) {
    const later = await chargesIn(until, first.from_at)
    if (later) {
      throw gapOf({ from: until, to: first.from_at, businessDay: dayIn(timeZone, later) })
    }
    return { from, to: first.from_at, before: first }
  }
  const end = last.to_at
  if (isDay ? end >= until : end > from) {
    throw overlapWith((await findClosingEndingAfter(trx, place, from)) ?? last, until, end)
  }
  if (end < from) {
    const firstCharge = await chargesIn(end, from)
    if (firstCharge) {
      throw gapOf({ from: end, to: from, businessDay: dayIn(timeZone, firstCharge) })
    }
  }
  return { from: end, to: until }
}

/** The charges before the first closing of a place; undefined for a closing that follows another one. */
export async function uncoveredBefore(
  trx: Trx,
  { client, follows_at, from_at: to, time_zone: timeZone }: ClosingRow,
  charged: ChargesQuery['place'],
): Promise<Uncovered | undefined> {
  if (follows_at !== null) return undefined
  const first = await findFirstCharge(trx, { client, place: charged, from: beginningOfTime, to })
  if (!first) return undefined
  const businessDay = dayIn(timeZone, first)
  return { from: spanOfDay(timeZone, businessDay).from, to, businessDay }
}

type NamedClosing = Pick<ClosingRow, 'id' | 'number' | 'state' | 'from_at' | 'to_at'>

/** Another closing covers a part of a time. `end`: where the next one begins. */
export function overlapWith(closing: NamedClosing, until: Date, end: Date): AppError {
  const { id, number, state, from_at: from, to_at: to } = closing
  const which =
    from >= until
      ? `The closings of this place begin at ${from.toISOString()}`
      : `Closing ${number} of this place covers ${from.toISOString()} to ${to.toISOString()}`
  return new AppError('CLOSING_OVERLAPS', {
    message: `${which}. Ask for a time from ${end.toISOString()} on`,
    extra: { closing: { id, number, state, from, to }, nextFrom: end },
  })
}

/** There are charges before a time that no closing covers. */
export function gapOf({ from, to, businessDay }: Uncovered): AppError {
  return new AppError('CLOSING_GAP', {
    message: `There are charges from ${from.toISOString()} to ${to.toISOString()} that no closing covers. Close ${businessDay} first`,
    extra: { uncovered: { from, to, businessDay }, nextFrom: from },
  })
}

function earlier(one: Date, other: Date): Date {
  return one < other ? one : other
}
