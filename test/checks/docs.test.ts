import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { settings } from '../../src/app/config-schema.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const pages = ['.', 'docs'].flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => (folder === '.' ? name : `${folder}/${name}`)),
)
const flowPages = readdirSync(join(root, 'docs/flows'))
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/flows/${name}`)
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
      'docs/architecture.md',
      'docs/erp.md',
      'docs/flows.md',
      'docs/operating.md',
      'docs/reliability.md',
    ]),
  )
  const reachable = found(/\]\(([^)#\s]+\.md)/g, ['README.md']).map(({ text }) => text)
  expect(reachable.toSorted()).toEqual(
    expect.arrayContaining(pages.filter((page) => page !== 'README.md').toSorted()),
  )
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

test('docs/operating.md has every setting in its words and with its default, and no other', () => {
  const section = read('docs/operating.md')
    .split(/^## /m)
    .find((text) => text.startsWith('Settings'))
  const rows = section?.match(/^\| `[A-Z_]+` .*$/gm)
  const expected = settings.map(
    ({ name, default: value, meaning }) => `| \`${name}\` | ${value || 'none'} | ${meaning} |`,
  )
  expect(rows).toEqual(expected)
})

test('every setting that a page names is one', () => {
  const known = new Set(settings.map(({ name }) => name))
  // Codes of errors, variables of shells, tests, builds and other programs look alike.
  const families =
    /^(MP|SYNC|FLOWS|OAUTH|ADMIN|SWEEP|PROVIDER|RATE_LIMIT|AUTH_FAILURES|TRUST|LOG|SMTP|MAIL|SANDBOX|POS_CREATE|DUPLICATE|DATA|ENCRYPTION|PUBLIC)_[A-Z_]+$/
  const codes = new Set(
    found(/'?([A-Z]+(?:_[A-Z]+)+)'?: /g, ['src/errors/app-error.ts']).map(({ text }) => text),
  )
  for (const { page, text } of found(/\b([A-Z][A-Z]+(?:_[A-Z]+)+)\b/g)) {
    if (families.test(text) && !codes.has(text)) expect(known, `${page}: ${text}`).toContain(text)
  }
})

test('every link within the pages leads to a file, and to a heading that is there', () => {
  const all = [...pages, ...flowPages]
  const links = found(/\]\(([^)\s]+)\)/g, all).filter(({ text }) => !/^https?:/.test(text))
  expect(links.length).toBeGreaterThan(20)
  for (const { page, text } of links) {
    const [file = '', anchor] = text.split('#')
    const target = file === '' ? page : join(dirname(page), file)
    expect(existsSync(join(root, target)), `${page}: ${text}`).toBe(true)
    if (anchor !== undefined) expect(anchorsOf(target), `${page}: ${text}`).toContain(anchor)
  }
})

test('every file that a page names in its text is there', () => {
  // A page that has named a folder names its files by their names alone.
  const names = new Set(
    globSync('src/**/*.ts', { cwd: root }).map((file) => file.slice(file.lastIndexOf('/') + 1)),
  )
  const made = new Set(['sbom.cdx.json', 'secrets.env', 'tillbridge.env'])
  for (const { page, text } of found(
    /`((?:[\w.-]+\/)*[\w.-]+\.(?:ts|md|json|yml|yaml|sql|service)|(?:src|test|docs|bench|examples|ops|checks|migrations|schema)\/[\w./-]*)`/g,
  )) {
    if (made.has(text) || text.startsWith('/')) continue
    expect(existsSync(join(root, text)) || names.has(text), `${page}: ${text}`).toBe(true)
  }
})
