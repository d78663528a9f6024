import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { plantedBugs } from './planted-bugs.ts'

test.each(plantedBugs)(
  'the text that the bug replaces occurs once in the source: $name',
  ({ changes }) => {
    for (const { file, find } of changes) {
      const source = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
      expect(source.split(find), file).toHaveLength(2)
    }
  },
)
