import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { settings } from '../../src/app/config-schema.ts'
import { errorCatalogue } from '../../src/errors/app-error.ts'
import { reasonCodes } from '../../src/texts/reason.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const pages = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...globSync('docs/**/*.md', { cwd: root }),
]
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }

/** Each page with every match of the pattern's first group. */
function found(pattern: RegExp, files = pages): { page: string; text: string }[] {
  return files.flatMap((page) =>
    [...read(page).matchAll(pattern)].map(([, text = '']) => ({ page, text })),
  )
}

/** The anchors that a page's headings get: lower case, without marks, spaces as hyphens. */
function anchorsOf(page: string): string[] {
  const text = read(page).replace(/^```[\s\S]*?^```/gm, '')
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-'),
  )
}

test('the pages are there: what is it, how is it used, run, built, changed and reported', () => {
  expect(pages).toEqual(
    expect.arrayContaining([
      'README.md',
      'CHANGELOG.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
      'docs/internals/architecture.md',
      'docs/how-to/charge-from-an-erp.md',
      'docs/how-to/install.md',
      'docs/tutorials/first-charge.md',
      'docs/tutorials/first-flow.md',
      'docs/explanation/reliability.md',
    ]),
  )
  // By links of the README, and of the pages that these lead to.
  const reached = new Set(['README.md'])
  for (const page of reached) {
    for (const { text } of found(/\]\((?!https?:)([^)#\s]+\.md)/g, [page]))
      reached.add(join(dirname(page), text))
  }
  expect(pages.filter((page) => !reached.has(page))).toEqual([])
  expect(read('LICENSE')).toMatch(/^MIT License\n\nCopyright \(c\) \d{4} the tillbridge authors\n/)
  expect(JSON.parse(read('package.json')).license).toBe('MIT')
  expect(read('CHANGELOG.md')).toMatch(/^## \[Unreleased\]$/m)
})

test('every command that a page names is a script of package.json, and every script is on a page', () => {
  const named = found(/\bnpm run (?:-s )?([a-z][\w:-]*)/g)
  for (const { page, text } of named)
    expect(scripts, `${page}: npm run ${text}`).toHaveProperty([text])
  expect(found(/\bnpm (start|test)\b/g).length).toBeGreaterThan(0)
  const onPages = new Set([...named.map(({ text }) => text), 'start', 'test'])
  // The CI's script names what it runs, too.
  for (const { page, text } of found(/\bnpm run (?:-s )?([a-z][\w:-]*)/g, ['.ci/run'])) {
    expect(scripts, page).toHaveProperty([text])
  }
  expect(Object.keys(scripts).filter((name) => !onPages.has(name))).toEqual([])
})

test('every setting that a page names is one', () => {
  const known = new Set(settings.map(({ name }) => name))
  // Codes of errors, variables of shells, tests, builds and other programs look alike.
  const families =
    /^(MP|SYNC|FLOWS|OAUTH|ADMIN|SWEEP|PROVIDER|RATE_LIMIT|AUTH_FAILURES|TRUST|LOG|SMTP|MAIL|SANDBOX|POS_CREATE|DUPLICATE|DATA|ENCRYPTION|PUBLIC)_[A-Z_]+$/
  const codes = new Set<string>([...Object.keys(errorCatalogue), ...reasonCodes])
  for (const { page, text } of found(/\b([A-Z][A-Z]+(?:_[A-Z]+)+)\b/g)) {
    if (families.test(text) && !codes.has(text)) expect(known, `${page}: ${text}`).toContain(text)
  }
})

test('every link within the pages leads to a file, and to a heading that is there', () => {
  const links = found(/\]\(([^)\s]+)\)/g).filter(({ text }) => !/^https?:/.test(text))
  expect(links.length).toBeGreaterThan(20)
  for (const { page, text } of links) {
    const [file = '', anchor] = text.split('#')
    const target = file === '' ? page : join(dirname(page), file)
    expect(existsSync(join(root, target)), `${page}: ${text}`).toBe(true)
    if (anchor !== undefined) expect(anchorsOf(target), `${page}: ${text}`).toContain(anchor)
  }
})

test('every table is whole: no blank line cuts off its rows', () => {
  const cut = pages.flatMap((page) => {
    const lines = read(page)
      .replace(/^ *```[\s\S]*?^ *```$/gm, (block) => block.replace(/[^\n]/g, ''))
      .split('\n')
    const isRow = (line = '') => line.trim().startsWith('|')
    return lines.flatMap((line, index) => {
      const begins = isRow(line) && !isRow(lines[index - 1])
      const hasHead = /^\s*\|[-:| ]+\|$/.test(lines[index + 1] ?? '')
      return begins && !hasHead ? [`${page}:${index + 1}`] : []
    })
  })
  expect(cut).toEqual([])
})

test('each constant that CONTRIBUTING names for a value stands in the file that it names', () => {
  const page = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')
  const table = page.slice(page.indexOf('| value | constant | file |')).split('\n\n', 1)[0] ?? ''
  const rows = table.split('\n').slice(2)
  expect(rows.length).toBeGreaterThan(10)
  for (const row of rows) {
    const [, , names = '', files = ''] = row.split('|')
    const texts = codesIn(files).map((file) => readFileSync(join(root, file), 'utf8'))
    for (const name of codesIn(names)) {
      expect(
        texts.some((text) => new RegExp(`\\b${name}\\b`).test(text)),
        row,
      ).toBe(true)
    }
  }
})

/** The texts between backticks. */
function codesIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)
}

test('every file that a page names in its text is there', () => {
  // A page that has named a folder names its files by their names alone.
  const names = new Set(
    globSync('src/**/*.ts', { cwd: root }).map((file) => file.slice(file.lastIndexOf('/') + 1)),
  )
  const made = new Set([
    'sbom.cdx.json',
    'secrets.env',
    'tillbridge.env',
    './flows/articulos.flow.yaml',
    './connections.yaml',
    './config/connections.yaml',
  ])
  for (const { page, text } of found(
    /`((?:[\w.-]+\/)*[\w.-]+\.(?:ts|md|json|yml|yaml|sql|service)|(?:src|test|docs|bench|examples|ops|checks|migrations|schema)\/[\w./-]*)`/g,
    pages.filter((page) => !page.endsWith('flows/definition.md')),
  )) {
    if (made.has(text) || text.startsWith('/')) continue
    expect(existsSync(join(root, text)) || names.has(text), `${page}: ${text}`).toBe(true)
  }
})
