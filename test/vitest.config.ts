import { fileURLToPath } from 'node:url'
import { configDefaults, defineConfig } from 'vitest/config'
import { compiled } from './process/real-process.ts'
import { timesAsMany } from './support/rounds.ts'
import { SlowFirst } from './support/slow-first.ts'
import { SlowestFiles } from './support/slowest-files.ts'

// Workers and whole processes load what was compiled before: half of the time that loading the modules takes.
process.env.NODE_COMPILE_CACHE ??= compiled

/** Whole processes need a multiple of their time on a loaded machine, and a green run ends before any limit. */
const wholeProcessMs = 300_000 * timesAsMany

/**
 * Two workers that keep their modules: on two cores half the time of isolated ones, and more workers gain nothing. Node loads
 * them itself, as it does the product's: a tenth less of processor time than through Vite.
 */
export default defineConfig({
  test: {
    root: fileURLToPath(new URL('..', import.meta.url)),
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, 'test/e2e/**'],
    // `npm test` plays neither, `.ci/run` also the long ones, `.ci/night` the others.
    tags: [
      {
        name: 'long',
        description: 'more than 0.15 s: large data, many rounds, real waits or whole processes',
        timeout: wholeProcessMs,
      },
      {
        name: 'night',
        description: 'many seconds of a processor, or a machine without other work',
        timeout: wholeProcessMs,
      },
    ],
    globalSetup: ['test/support/global-setup.ts'],
    setupFiles: ['test/support/check-answers.ts'],
    reporters: ['default', new SlowestFiles()],
    pool: 'forks',
    maxWorkers: 2,
    isolate: false,
    // Services and databases come and go all the time: a larger nursery spares a good part of the collector's work.
    execArgv: ['--max-semi-space-size=64'],
    sequence: { sequencer: SlowFirst },
    experimental: { viteModuleRunner: false },
    testTimeout: 20_000 * timesAsMany,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 10_000, interval: 15 } },
  },
})
