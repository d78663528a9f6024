import { expect, test } from 'vitest'
import { type Part, runSideBySide } from '../../checks/side-by-side.ts'

const part = (name: string, script: string): Part => ({
  name,
  command: process.execPath,
  args: ['-e', script],
})

test('all parts run to their end, and those that failed are named with their output', {
  tags: ['long'],
}, async () => {
  const printed: string[] = []
  const failed = await runSideBySide(
    [
      part('good', 'console.log("fine")'),
      part('bad', 'console.error("the reason"); process.exit(3)'),
      part('killed', 'process.kill(process.pid, "SIGKILL")'),
      { name: 'missing', command: '/no/such/command', args: [] },
    ],
    (text) => printed.push(text),
  )
  expect(failed).toEqual(['bad', 'killed', 'missing'])
  expect(printed.toSorted()).toEqual([
    '\n== bad: FAILED (3)\nthe reason\n',
    '\n== good: passed\nfine\n',
    '\n== killed: FAILED (SIGKILL)\n',
    '\n== missing: FAILED (spawn /no/such/command ENOENT)\n',
  ])
})
