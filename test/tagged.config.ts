import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import all from './vitest.config.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** The files that have tests with a tag, for `--tags-filter`: vitest would load each file before it looks for the tag. */
export default {
  ...all,
  test: {
    ...all.test,
    // Tests of whole processes wait for them: with two workers a fifth of both processors would be idle.
    maxWorkers: 3,
    include: globSync('test/**/*.test.ts', { cwd: root }).filter((file) =>
      /tags: \['|@module-tag /.test(readFileSync(join(root, file), 'utf8')),
    ),
  },
}
