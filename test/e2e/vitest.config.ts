import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

/** Browser tests: a file at a time on each of two processors, each with a service and a browser of its own. */
export default defineConfig({
  test: {
    root: fileURLToPath(new URL('../..', import.meta.url)),
    include: ['test/e2e/**/*.e2e.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    maxWorkers: 2,
    // As with the other tests; the second try is printed beside the result.
    retry: process.env.CI ? 1 : 0,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // What is waited for comes at once on a machine at rest; a busy one is waited for.
    expect: { poll: { timeout: 10_000 } },
  },
})
