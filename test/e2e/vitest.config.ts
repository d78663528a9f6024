import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { compiled } from '../process/real-process.ts'

// As with the other tests.
process.env.NODE_COMPILE_CACHE ??= compiled

/**
 * Browser tests: a file at a time on each of two processors, whose worker keeps its modules, its embedded database and its
 * browser for the next file.
 */
export default defineConfig({
  test: {
    root: fileURLToPath(new URL('../..', import.meta.url)),
    include: ['test/e2e/**/*.e2e.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    isolate: false,
    execArgv: ['--max-semi-space-size=64'],
    experimental: { viteModuleRunner: false },
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // What is waited for comes at once on a machine at rest; a busy one is waited for.
    expect: { poll: { timeout: 10_000 } },
  },
})
