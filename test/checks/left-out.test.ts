import { existsSync, globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { leftOut } from '../support/left-out.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

test('the long form of each file that npm test leaves out is played by .ci/run', () => {
  const sections = readFileSync(`${root}.ci/run`, 'utf8').split('\nsay ')
  const played = sections
    .filter((part) => part.startsWith("'the long form"))
    .flatMap((part) => part.split('\n\n')[0]?.match(/test\/\S+\.test\.ts/g) ?? [])
  expect(played).toEqual(expect.arrayContaining([...leftOut]))
  for (const file of leftOut) expect(existsSync(root + file), file).toBe(true)
})

test('the tests with the tag long are left out by npm test, and played by .ci/run', () => {
  const main = readFileSync(`${root}test/main.ts`, 'utf8')
  const ci = readFileSync(`${root}.ci/run`, 'utf8')
  expect(main).toContain("['--tags-filter', '!long']")
  const played = 'npx vitest run --config test/long.config.ts --tags-filter long\n'
  expect(ci.split(played)).toHaveLength(3)
  // A tag in other words or in another file would not be found by that configuration.
  for (const file of globSync('test/**/*.ts', { cwd: root })) {
    const tags =
      readFileSync(root + file, 'utf8').match(/\btags:\s*\[[^\]{]*'long'\]?|@module-tag \w+/g) ?? []
    const isFound = (tag: string) =>
      file.endsWith('.test.ts') && ["tags: ['long']", '@module-tag long'].includes(tag)
    expect([file, tags.filter((tag) => !isFound(tag))]).toEqual([file, []])
  }
})

test('each file with tests of the long form is played in it by .ci/run', () => {
  const ci = readFileSync(`${root}.ci/run`, 'utf8')
  const played = ci.split('\n\n').filter((part) => part.includes('\nTEST_ROUNDS='))
  const files = globSync('test/**/*.test.ts', { cwd: root }).filter((file) =>
    /\bskipIf\(!isLongForm/.test(readFileSync(root + file, 'utf8')),
  )
  expect(files.length).toBeGreaterThan(0)
  expect(files.filter((file) => !played.some((part) => part.includes(file)))).toEqual([])
})
