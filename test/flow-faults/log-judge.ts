/** What a process may say at level error, whatever happens to it. */
const expected = [
  // A source misbehaves.
  'poll failed',
  // The same, of a poll that somebody asked for.
  '"code":"PROVIDER_ERROR"',
  // It has not heard yet of the flow files that another one has read, and reads them again.
  '"type":"OutdatedError"',
] as const

/** Of rows that somebody locks who stands still in the middle of a transaction, or of connections that all wait for them. */
const besideFrost = ['DatabaseUnavailableError', '"code":"55P03"'] as const

/** What should not have gone wrong in a process that has its database. */
export function unexpected(lines: readonly string[], hasFrost: boolean): string[] {
  const known = [...expected, ...(hasFrost ? besideFrost : [])]
  return lines.filter((line) => !known.some((text) => line.includes(text)))
}
