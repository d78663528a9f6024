import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFileSync(join(root, file), 'utf8')

type Row = { name: string; cells: string[]; tests: { file: string; title: string }[] }

const rows: Row[] = [...read('docs/internals/threats.md').matchAll(/^\| (T\d+) \| (.*) \|$/gm)].map(
  ([, name = '', rest = '']) => {
    const cells = rest.split(' | ')
    const tests = [...(cells[2] ?? '').matchAll(/`([^`]+)`: (.*?)(?=<br>|$)/g)].map(
      ([, file = '', title = '']) => ({ file, title }),
    )
    return { name, cells, tests }
  },
)

/** The rows that each test names at the beginning of its title, by file. */
function titlesOf(file: string): { names: string[]; title: string }[] {
  const titles = read(file).matchAll(/['"`]((?:T\d+(?:, )?)+): ([^\n]*)/g)
  return [...titles].map(([, names = '', title = '']) => ({ names: names.split(', '), title }))
}

const testFiles = ['test/**/*.test.ts', 'test/**/*.e2e.ts']
  .flatMap((pattern) => globSync(pattern, { cwd: root }))
  .sort()

test('every threat has its row, once, with what is tried, what stands against it and what shows that', () => {
  expect(rows.map(({ name }) => name)).toEqual(
    Array.from({ length: 60 }, (_, index) => `T${index + 1}`),
  )
  for (const { name, cells, tests } of rows) {
    expect(cells, name).toHaveLength(3)
    for (const cell of cells) expect(cell.length, name).toBeGreaterThan(10)
    expect(tests.length, name).toBeGreaterThan(0)
  }
})

test('every test that a row names is there, and names the row', () => {
  for (const { name, tests } of rows) {
    for (const { file, title } of tests) {
      expect(existsSync(join(root, file)), `${name}: ${file}`).toBe(true)
      const named = titlesOf(file).filter((found) => found.title.startsWith(title))
      expect(named.length, `${name}: ${file}: ${title}`).toBe(1)
      expect(named[0]?.names, `${name}: ${file}: ${title}`).toContain(name)
    }
  }
})

test('every test that names a row stands in a file of that row', () => {
  const strangers: string[] = []
  for (const file of testFiles) {
    for (const { names, title } of titlesOf(file)) {
      for (const name of names) {
        const row = rows.find((one) => one.name === name)
        if (!row?.tests.some((one) => one.file === file))
          strangers.push(`${name}: ${file}: ${title}`)
      }
    }
  }
  expect(strangers).toEqual([])
})
