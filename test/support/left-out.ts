/** What `npm test` prints of the tests with the tag `long`. `.ci/run` plays them. */
export const whyLong =
  'more than a second of a processor: large data, many rounds, real waits or whole processes'

/**
 * What `npm test` leaves to `.ci/run`: files that take many seconds of a processor each, since they make whole processes,
 * folders, days and the largest answers, and guard what seldom changes.
 */
export const leftOut: readonly string[] = [
  'test/notifications/chain-alerts.test.ts',
  'test/backup/copy.test.ts',
  'test/closings/kills.test.ts',
  'test/closings/seeded-chain.test.ts',
  'test/closings/seeded-day.test.ts',
  'test/db/db-folder.test.ts',
  'test/db/db-new-folder.test.ts',
  'test/db/db-test-support.test.ts',
  'test/db/db-vacuum.test.ts',
  'test/fleet/chain-day.test.ts',
  'test/fuzz/fuzz.test.ts',
  'test/http/event-loop-answers.test.ts',
  'test/http/event-loop-requests.test.ts',
  'test/process/backup.test.ts',
  'test/process/demo.test.ts',
  'test/docs/blocks.test.ts',
  'test/process/encryption-keys.test.ts',
  'test/process/main.test.ts',
  'test/process/rotate-secrets.test.ts',
  'test/flows/event-loop.test.ts',
  'test/flows/shop-day.test.ts',
  'test/flows/shop-templates.test.ts',
]
