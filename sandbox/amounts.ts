const amountPattern = /^(\d{1,12})(?:\.(\d{1,2}))?$/

/**
 * Reads a provider amount ("10", "10.5", "10.00") as integer cents. Undefined when it is not an amount above zero.
 * Decimals are optional in the newest reference (provider facts 0.4), and not allowed in a currency without cents.
 */
export function parseAmount(text: string, hasCents = true): number | undefined {
  const match = amountPattern.exec(text)
  if (match === null || (!hasCents && match[2] !== undefined)) return undefined
  const cents = Number(match[1]) * 100 + Number((match[2] ?? '').padEnd(2, '0'))
  return cents > 0 ? cents : undefined
}

/** Writes integer cents in the provider's form: a point and two decimals, or none in a currency without cents. */
export function formatCents(cents: number, hasCents = true): string {
  if (!hasCents) return String(Math.floor(cents / 100))
  return `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')}`
}

const durationPattern = /^PT(?=\d)(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,5})S)?$/

/** Seconds of an ISO 8601 duration (`PT16M`, `PT1H15M`, `PT300S`); undefined for another text. */
export function parseDuration(text: string): number | undefined {
  const match = durationPattern.exec(text)
  if (match === null) return undefined
  return Number(match[1] ?? 0) * 3600 + Number(match[2] ?? 0) * 60 + Number(match[3] ?? 0)
}
