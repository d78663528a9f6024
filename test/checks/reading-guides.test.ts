import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { postgresUrl } from '../support/database.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The files that a page names in its tables. */
function namedIn(page: string): string[] {
  const text = readFileSync(`${root}docs/internals/${page}`, 'utf8')
  return [...text.matchAll(/^\| `src\/(.+?\.ts)` \|/gm)].map(([, file = '']) => file)
}

/** The files that an operation passes through. A process of its own: Vitest's own coverage of the source would be counted. */
function passedBy(operation: string): string[] {
  const counted = execFileSync(process.execPath, ['checks/main.ts', 'paths', operation], {
    cwd: root,
    encoding: 'utf8',
  })
  return [...counted.matchAll(/^ {2}(.+\.ts)$/gm)].map(([, file = '']) => file)
}

const options = { tags: ['night'] }

test('the page about a charge names each file that one passes through', options, () => {
  expect(namedIn('reading-a-charge.md').toSorted()).toEqual(passedBy('charge'))
})

test.each(['refund', 'webhook'])(
  'the page about a %s names each file that one passes through beyond a charge',
  options,
  (operation) => {
    const ofCharge = new Set(namedIn('reading-a-charge.md'))
    const beyond = passedBy(operation).filter((file) => !ofCharge.has(file))
    expect(namedIn(`reading-a-${operation}.md`).toSorted()).toEqual(beyond)
  },
)

const ofFlows = postgresUrl === undefined ? ['delivery'] : ['delivery', 'poll']
if (postgresUrl === undefined) {
  process.stdout.write('skipped: the page about a poll, since TEST_DATABASE_URL names no server\n')
}

test.each(ofFlows)(
  'the page about a %s names each file that one passes through, those of the database apart',
  options,
  (operation) => {
    const passed = passedBy(operation).filter((file) => !file.startsWith('db/'))
    expect(namedIn(`reading-a-${operation}.md`).toSorted()).toEqual(passed)
  },
)
