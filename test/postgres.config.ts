import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import all from './vitest.config.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Whatever moves money, and whatever polls and delivers, is played on both databases. */
const onBoth = /^test\/(db\/|payment\/orders|payment\/refund|flows\/poll|flows\/deliver)/

/**
 * What `npm test` cannot show on the embedded database: files with tests that need a server, and those that are played on both.
 * The embedded database is the same PostgreSQL, so the others prove nothing more on a server.
 */
export default {
  ...all,
  test: {
    ...all.test,
    include: globSync('test/**/*.test.ts', { cwd: root }).filter(
      (file) => onBoth.test(file) || /\bpostgresUrl\b/.test(readFileSync(join(root, file), 'utf8')),
    ),
  },
}
