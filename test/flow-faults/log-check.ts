/** Log lines at level error that faults may cause. */
const expected = [
  // A source has a fault.
  'poll failed',
  // The same, in a poll on request.
  '"code":"PROVIDER_ERROR"',
  // Another process has read newer flow files; this one reads them again.
  '"type":"OutdatedError"',
] as const

/** A process that is suspended in a transaction locks rows. Statements, and then all connections, wait for them. */
const expectedWhileSuspended = ['DatabaseUnavailableError', '"code":"55P03"'] as const

/** The log lines at level error that no fault explains. */
export function unexpected(lines: readonly string[], wasSuspended: boolean): string[] {
  const known = [...expected, ...(wasSuspended ? expectedWhileSuspended : [])]
  return lines.filter((line) => !known.some((text) => line.includes(text)))
}
