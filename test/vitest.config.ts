import { fileURLToPath } from 'node:url'
import { configDefaults, defineConfig } from 'vitest/config'

/** Two workers that keep their modules: on two cores half the time of isolated ones, and more workers gain nothing. */
export default defineConfig({
  test: {
    root: fileURLToPath(new URL('..', import.meta.url)),
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, 'test/e2e/**'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    isolate: false,
    testTimeout: 20_000,
    // On a busy runner a socket test may lose a race with the machine; further tries are printed beside the result.
    retry: process.env.CI ? 2 : 0,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 10_000 } },
  },
})
