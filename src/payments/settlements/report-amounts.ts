const pointAmount = /^([+-]?)([0-9]{1,12}|[0-9]{1,3}(?:,[0-9]{3}){1,3})(?:\.([0-9]+))?$/
const commaAmount = /^([+-]?)([0-9]{1,12}|[0-9]{1,3}(?:\.[0-9]{3}){1,3}),([0-9]+)$/

/**
 * Integer cents of an amount as a report writes it: `-107.73`, `1,234.5`, `1.234,50`, `10`; an empty one is 0. Undefined for
 * anything else, also for an ambiguous text (`1,234`, a thousand or one) and for a fraction of a cent.
 */
export function centsOfReport(text: string): number | undefined {
  const amount = text.trim()
  if (amount === '') return 0
  const match = commaAmount.exec(amount) ?? pointAmount.exec(amount)
  if (!match) return undefined
  const [, sign, whole = '', decimals = ''] = match
  const isGrouped = /[.,]/.test(whole)
  const couldBeGroup = decimals.length === 3 && !isGrouped && whole.length <= 3 && whole !== '0'
  const isUnsure = decimals === '' ? isGrouped : couldBeGroup
  if (isUnsure || !/^[0-9]{0,2}0*$/.test(decimals)) return undefined
  const cents =
    Number(whole.replace(/[.,]/g, '')) * 100 + Number(decimals.slice(0, 2).padEnd(2, '0'))
  // Never -0.
  return sign === '-' && cents !== 0 ? -cents : cents
}

export type TaxPart = { name: string; entity: string | null; cents: number }

/**
 * The taxes of a cell such as `[{financial_entity:caba,amount:-107.73,detail:tax_withholding_sirtac-caba}]`, which is JSON
 * without quotes in a CSV and with them elsewhere. Empty for an empty cell; undefined for one that cannot be read.
 */
export function taxesOfCell(cell: string): TaxPart[] | undefined {
  const text = cell.trim()
  if (['', '[]', '{}', '[{}]'].includes(text)) return []
  const body = /^\[?\s*\{([\s\S]*)\}\s*\]?$/.exec(text)?.[1]
  if (body === undefined) return undefined
  const parts: TaxPart[] = []
  for (const object of body.split(/\}\s*,\s*\{/)) {
    const members = membersOf(object)
    const cents = centsOfReport(members.get('amount') ?? 'none')
    if (cents === undefined) return undefined
    const entity = members.get('financial_entity') || null
    parts.push({ name: members.get('detail') || entity || 'tax', entity, cents })
  }
  return parts
}

/** A comma belongs to a value unless a name and a colon follow it. */
function membersOf(object: string): Map<string, string> {
  const members = object.split(/,(?=\s*"?[a-z_]+"?\s*:)/i)
  return new Map(
    members.map((member) => {
      const colon = member.indexOf(':')
      const bare = (text: string) => text.trim().replace(/^"(.*)"$/s, '$1')
      return [bare(member.slice(0, colon)).toLowerCase(), bare(member.slice(colon + 1))]
    }),
  )
}

/** The time zone of a report that names none: GMT-4. */
export const reportZone = '-04:00'

/** `GMT-03`, `GMT-4`, `-03:00` as an offset; undefined for anything else. */
export function offsetOfZone(zone: string): string | undefined {
  const match = /^(?:GMT|UTC)?([+-])([01]?[0-9])(?::?([0-5][0-9]))?$/i.exec(zone.trim())
  if (!match) return /^(?:GMT|UTC|Z)$/i.test(zone.trim()) ? '+00:00' : undefined
  const [, sign, hours = '', minutes = '00'] = match
  return Number(hours) <= 14 ? `${sign}${hours.padStart(2, '0')}:${minutes}` : undefined
}

const reportTime =
  /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?))?\s*(Z|[+-]\d{2}:?\d{2})?$/

/** The time of a report's entry; its own offset has priority over the report's time zone. Undefined when it cannot be read. */
export function timeOfReport(text: string, offset: string): Date | undefined {
  const match = reportTime.exec(text.trim())
  if (!match) return undefined
  const [, day, time = '00:00:00', own] = match
  const zone = own === undefined ? offset : own.replace(/^([+-]\d{2}):?(\d{2})$/, '$1:$2')
  const at = new Date(`${day}T${time}${zone}`)
  return Number.isNaN(at.getTime()) ? undefined : at
}

/** The provider's own time. */
const reportOffsetMs = 4 * 3_600_000

/** The day of a moment in the provider's time, which is GMT-4 in all countries. */
export function providerDay(at: Date): string {
  return new Date(at.getTime() - reportOffsetMs).toISOString().slice(0, 10)
}

/**
 * The day of a report's time in the provider's time, whatever the time zone of the report: a movement has the same day in every
 * report. A day without a time stays as it is.
 */
export function dayOfReport(text: string, offset: string): string | null {
  if (/^\d{4}-\d{2}-\d{2}$/.test(text.trim())) return text.trim()
  const at = timeOfReport(text, offset)
  return at ? providerDay(at) : null
}
