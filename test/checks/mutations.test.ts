import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { mistakes } from '../mutations/all.ts'

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

test.each(mistakes)(
  'the mistake fits the source, and its tests are there: $name',
  ({ changes, tests }) => {
    for (const { file, find } of changes) expect(read(file).split(find), file).toHaveLength(2)
    for (const [file, title = ''] of tests) expect(read(file), file).toContain(title)
  },
)
