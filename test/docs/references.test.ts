import { readFileSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import { referencePages } from '../../checks/references/pages.ts'

let pages: Record<string, string>
beforeAll(async () => {
  pages = await referencePages()
}, 120_000)

test.each([
  '../../public/dashboard/order-states.js',
  '../internals/order-moves.md',
  '../internals/tables.md',
  'alerts.md',
  'commands.md',
  'errors.md',
  'metrics.md',
  'order-states.md',
  'settings.md',
])('docs/reference/%s is current (npm run docs:references)', (name) => {
  const file = new URL(`../../docs/reference/${name}`, import.meta.url)
  expect(readFileSync(file, 'utf8')).toBe(pages[name])
})

test('each generated page has all rows', () => {
  const rows = Object.entries(pages).map(([name, text]) => [
    name,
    (text.match(/^\| `|^## npm/gm) ?? []).length,
  ])
  expect(Object.fromEntries(rows)).toMatchObject({
    'commands.md': 11,
    'settings.md': expect.toSatisfy((count: number) => count > 50),
    'errors.md': expect.toSatisfy((count: number) => count > 40),
    'metrics.md': expect.toSatisfy((count: number) => count > 40),
  })
})
