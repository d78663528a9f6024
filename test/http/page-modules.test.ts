import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Script } from 'node:vm'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { errorCatalogue } from '../../src/errors/app-error.ts'
import { actions, causeWords } from '../../src/fleet/causes.ts'
import { bundlePage } from '../../src/http/page-bundle.ts'
import { commonFolders, vendor } from '../../src/http/pages.ts'
import { reportRefusals } from '../../src/payments/settlements/fetch-reports.ts'

/** The pages have no build step, so this test finds missing modules and texts. */
const root = fileURLToPath(new URL('../../public', import.meta.url))
const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
const modules = new Map(
  files
    .filter((file) => file.endsWith('.js'))
    .map((file) => [file, readFileSync(join(root, file), 'utf8')]),
)
const pages = files.filter((file) => file.endsWith('.html'))

const imported = /^import (?:\{([^}]*)\} from )?'(\.[^']+)'/gm
const exported = /^export (?:async )?(?:class|const|function|let) (\w+)/gm

const minifiedExport = /\bexport\{([^}]*)\};/g

function exportsOf(source: string): Set<string> {
  const minified = [...source.matchAll(minifiedExport)].flatMap(([, given]) =>
    String(given)
      .split(',')
      .map((one) => one.split(' as ').at(-1) ?? ''),
  )
  return new Set([...minified, ...[...source.matchAll(exported)].map((match) => String(match[1]))])
}

/** A module of ours, or one of a library that comes inside the pages' script. */
function moduleAt(path: string): string | undefined {
  const folder = commonFolders.find(({ prefix }) => `/${path}`.startsWith(`${prefix}/`))
  if (folder === undefined || folder.prefix === '/shared') return modules.get(path)
  return readFileSync(join(folder.root, `/${path}`.slice(folder.prefix.length)), 'utf8')
}

test.each([...modules])('%s finds what it imports', (file, source) => {
  const missing = [...source.matchAll(imported)].flatMap(([, names, path]) => {
    const target = moduleAt(relative('', join(dirname(file), String(path))))
    if (target === undefined) return [String(path)]
    const offered = exportsOf(target)
    return (names ?? '')
      .split(',')
      .map((name) => name.trim().split(' as ')[0] ?? '')
      .filter((name) => name !== '' && !offered.has(name))
      .map((name) => `${name} of ${path}`)
  })
  expect(missing).toEqual([])
})

test.each(pages)('%s refers to files that are there', (page) => {
  const html = readFileSync(join(root, page), 'utf8').replace(/<link [^>]*as="fetch"[^>]*>/g, '')
  const paths = [...html.matchAll(/(?:href|src|content)="\/([^"]+)"/g)].map((match) =>
    String(match[1]),
  )
  expect(paths.length).toBeGreaterThan(0)
  const foreign = readdirSync(vendor.root).map((file) => `vendor/${file}`)
  expect(paths.filter((path) => ![...files, ...foreign].includes(path))).toEqual([])
})

/** Those of the first view, and those that later views bring. */
async function textsOf(folder: string, language: string): Promise<Record<string, string>> {
  const place = join(root, folder, 'texts')
  const { texts } = await import(join(place, `${language}.js`))
  const later = readdirSync(place).filter((file) => file.endsWith(`-page-${language}.js`))
  const parts: object[] = await Promise.all(later.map((file) => import(join(place, file))))
  return Object.assign({}, texts, ...parts.flatMap((part) => Object.values(part)))
}

/** `t('key')`, and `count('key', …)`, which has a form for 1 and one for the rest. */
const used = /\b(t|count)\(\s*'([\w.]+)'/g

test.each(['dashboard', 'admin'])('every text of /%s is there in both languages', async (page) => {
  for (const language of ['es', 'en']) {
    const known = { ...(await textsOf('shared', language)), ...(await textsOf(page, language)) }
    const missing = [...modules]
      .filter(([file]) => file.startsWith(`${page}/`) || file.startsWith('shared/'))
      .flatMap(([, source]) => [...source.matchAll(used)])
      .flatMap(([, call, key]) => (call === 't' ? [key] : [`${key}.one`, `${key}.other`]))
      .filter((key) => !Object.hasOwn(known, String(key)))
    expect([language, ...new Set(missing)]).toEqual([language])
  }
  const { words: _words, ...spanish } = await textsOf(page, 'es')
  expect(Object.values(spanish)).not.toContain('')
})

test('every cause and every action of the fleet has its words in both languages, and every error in Spanish', async () => {
  const words = [
    ...causeWords.map((cause) => `cause.${cause}`),
    ...actions.map((action) => `help.${action}`),
  ]
  // In English the text of the service is shown. The last ones are of actions that the service began itself.
  const codes = [...Object.keys(errorCatalogue), ...reportRefusals, 'REFUND_FAILED']
  const spanish = [...words, ...codes.map((code) => `error.${code}`)]
  for (const [language, wanted] of Object.entries({ es: spanish, en: words })) {
    const known = {
      ...(await textsOf('shared', language)),
      ...(await textsOf('dashboard', language)),
    }
    expect([language, ...wanted.filter((word) => !known[word])]).toEqual([language])
  }
})

test.each(['dashboard', 'admin'])('/%s weighs at most 150 KB compressed', (page) => {
  const { html, scripts, style } = bundleOf(page)
  // The editor comes where a definition is edited, and nowhere else.
  const editor = scripts.get('workbench/editor.js') ?? ''
  scripts.delete('workbench/editor.js')
  expect(gzipSync(editor).length).toBeLessThan(220 * 1024)
  // So do the endpoints of events, for those who set up an ERP.
  const endpoints = scripts.get('events-views.js') ?? ''
  scripts.delete('events-views.js')
  expect(gzipSync(endpoints).length).toBeLessThan(16 * 1024)
  const charts = readFileSync(join(vendor.root, 'uPlot.iife.min.js'), 'utf8')
  const weight = [html.es, ...scriptsOf(scripts, 'es'), style, charts].reduce(
    (sum, text) => sum + gzipSync(text).length,
    0,
  )
  expect(weight).toBeLessThan(150 * 1024)
})

function bundleOf(page: string) {
  const folder = (name: string) => ({ root: join(root, name), prefix: `/${name}` })
  return bundlePage(folder(page), commonFolders)
}

/** All parts that a page in this language has in the end. */
function scriptsOf(scripts: Map<string, string>, language: 'es' | 'en'): string[] {
  const other = language === 'es' ? 'en' : 'es'
  return [...scripts]
    .filter(([name]) => name !== other && name !== `texts/${language}.js`)
    .map(([, text]) => text)
}

test.each([
  ['dashboard', 'es', 'en'],
  ['dashboard', 'en', 'es'],
  ['admin', 'es', 'en'],
  ['admin', 'en', 'es'],
] as const)(
  '/%s in %s has every module once, and the texts of %s in a part of their own',
  (page, language, other) => {
    const { scripts } = bundleOf(page)
    const parts = scriptsOf(scripts, language)
    // What only a module may hold is written so that a script may.
    for (const text of parts) {
      const script = text.replace('export const', 'const').replace('import.meta.url', "''")
      expect(() => new Script(script)).not.toThrow()
    }
    const names = parts.flatMap((text) =>
      [...text.matchAll(/^held\['([^']+)'\] \?\?= /gm)].map(([, path]) => path),
    )
    expect([...new Set(names)].sort()).toEqual([...names].sort())
    const own = [...modules.keys()].filter((file) => file.startsWith(`${page}/`))
    expect(own.filter((file) => !names.includes(`/${file}`))).toEqual([])
    const first = String(scripts.get(language))
    expect(first).toContain(`held['/${page}/texts/${language}.js'] ??=`)
    expect(first).not.toContain(`held['/shared/texts/${other}.js'] ??=`)
  },
)

test('every module that the pages share is in the script of one of them', () => {
  const all = ['dashboard', 'admin']
    .flatMap((page) => [...bundleOf(page).scripts.values()])
    .join('')
  const own = [...modules.keys()].filter((file) => file.startsWith('shared/'))
  expect(own.filter((file) => !all.includes(`held['/${file}'] ??=`))).toEqual([])
})
