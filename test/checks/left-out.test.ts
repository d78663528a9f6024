import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { leftOut } from '../support/left-out.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

test('what npm test leaves out is there, and played by .ci/run', () => {
  const section = readFileSync(`${root}.ci/run`, 'utf8')
    .split('\nsay ')
    .find((part) => part.startsWith("'what npm test leaves out"))
  const [command = ''] = section?.split('\n\n') ?? []
  const played = command.match(/test\/\S+\.test\.ts/g) ?? []
  expect(played.toSorted()).toEqual([...leftOut])
  for (const file of leftOut) expect(existsSync(root + file), file).toBe(true)
})
