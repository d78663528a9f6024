import { runSideBySide } from '../checks/side-by-side.ts'

/** `npm test`: the type check and the lint run beside the tests. Arguments are those of vitest, such as the name of a file. */
const filter = ['--tags-filter', '!long && !night']
const vitest = [
  'vitest',
  'run',
  '--config',
  'test/vitest.config.ts',
  ...filter,
  ...process.argv.slice(2),
]
const npm = ['run', '--silent']
const failed = await runSideBySide(
  [
    { name: 'tests', command: 'npx', args: vitest, isShownAtOnce: true },
    // One checker: several check what they share again, a third of the processor time.
    {
      name: 'npm run typecheck',
      command: 'npm',
      args: [...npm, 'typecheck', '--', '--checkers', '1'],
    },
    { name: 'npm run lint', command: 'npm', args: [...npm, 'lint'] },
  ],
  (text) => void process.stdout.write(text),
)
process.stdout.write(
  '\nNot played here: the tests with the tags "long", which .ci/run plays, and "night", which .ci/night plays.\n',
)
process.stdout.write(
  failed.length === 0
    ? '\nTests, type check and lint passed.\n'
    : `\nFAILED: ${failed.join(', ')}\n`,
)
if (failed.length > 0) process.exitCode = 1
