import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

test('the page about a charge names each file that one passes through', {
  tags: ['long'],
  timeout: 120_000,
}, () => {
  const page = readFileSync(`${root}docs/internals/reading-a-charge.md`, 'utf8')
  const named = [...page.matchAll(/^\| `src\/(.+?\.ts)` \|/gm)].map(([, file = '']) => file)
  // A process of its own: Vitest's own coverage of the source would be counted.
  const counted = execFileSync(process.execPath, ['checks/main.ts', 'paths', 'charge'], {
    cwd: root,
    encoding: 'utf8',
  })
  const passed = [...counted.matchAll(/^ {2}(.+\.ts)$/gm)].map(([, file = '']) => file)
  expect(named.toSorted()).toEqual(passed)
})
