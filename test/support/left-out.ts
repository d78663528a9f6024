/** What `npm test` prints of the tests with the tag `long`. `.ci/run` plays them. */
export const whyLong = 'more than 0.2 s: large data, many rounds, real waits or whole processes'

/** Files of which `.ci/run` plays the long form only. What else is too long for `npm test` has the tag. */
export const leftOut: readonly string[] = [
  'test/closings/seeded-day.test.ts',
  'test/flows/event-loop.test.ts',
  'test/flows/sources-sql-portions.test.ts',
  'test/process/rotate-secrets.test.ts',
]
