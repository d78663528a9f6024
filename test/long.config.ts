import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { leftOut } from './support/left-out.ts'
import { playedOnPostgres } from './support/on-postgres.ts'
import all from './vitest.config.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
// Vitest would load each file before it looks for the tag.
const withLong = globSync('test/**/*.test.ts', { cwd: root }).filter((file) =>
  /\['long'\]|@module-tag\slong/.test(readFileSync(join(root, file), 'utf8')),
)
const isPlayed = process.env.PLAYED_ON_POSTGRES === 'true'
const elsewhere = new Set([...leftOut, ...(isPlayed ? playedOnPostgres : [])])

/**
 * The files with tests of the tag `long`, which `npm test` leaves out; with PLAYED_ON_POSTGRES=true but for those that
 * `test/postgres.config.ts` plays. For `--tags-filter long`.
 */
export default {
  ...all,
  test: {
    ...all.test,
    include: withLong.filter((file) => !elsewhere.has(file)),
  },
}
