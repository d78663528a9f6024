import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const textOf = (file: string) => readFileSync(root + file, 'utf8')

test('what npm test leaves out is played by .ci/run or by .ci/night', () => {
  expect(textOf('test/main.ts')).toContain("['--tags-filter', '!long && !night']")
  const plays = (tag: string) => `--config test/tagged.config.ts --tags-filter ${tag} `
  // With a server and without one.
  expect(textOf('.ci/run').split(plays('long'))).toHaveLength(3)
  expect(textOf('.ci/night')).toContain(plays('night'))
})

test('each tag is written so that test/tagged.config.ts finds its file', () => {
  const written = /\btags:\s*\[[^\]{]*'(?:long|night)'\]?|@module-tag \w+/g
  const found = ["tags: ['long']", "tags: ['night']", '@module-tag long', '@module-tag night']
  for (const file of globSync('test/**/*.ts', { cwd: root })) {
    const tags = textOf(file).match(written) ?? []
    const isFound = (tag: string) => file.endsWith('.test.ts') && found.includes(tag)
    expect([file, tags.filter((tag) => !isFound(tag))]).toEqual([file, []])
  }
})
