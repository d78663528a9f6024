import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, expect, test } from 'vitest'
import { bundlePage } from '../../src/http/page-bundle.ts'
import { pages, sharedParts, startPage, vendor } from '../../src/http/pages.ts'
import { publicServer } from './sample-app.ts'

const folder = mkdtempSync(join(tmpdir(), 'tillbridge-pages-'))
const root = join(folder, 'dashboard')
mkdirSync(root)
writeFileSync(join(folder, 'secret.txt'), 'canary')
writeFileSync(join(root, 'index.html'), '<!doctype html><title>Dashboard</title>')
writeFileSync(join(root, 'app.js'), 'export {}')
writeFileSync(join(root, '.hidden'), 'canary')
mkdirSync(join(root, 'empty'))

const publicFolder = fileURLToPath(new URL('../../public', import.meta.url))
const modular = join(folder, 'modules')
mkdirSync(modular)
writeFileSync(
  join(modular, 'index.html'),
  `<link rel="stylesheet" href="/modules/a.css">
<link rel="stylesheet" href="/modules/b.css">
<script type="module" src="/modules/app.js"></script>
<meta name="later:extras" content="/modules/later.js">
`,
)
writeFileSync(join(modular, 'later.js'), 'report(this)\n')
writeFileSync(join(modular, 'a.css'), 'b {}\n')
writeFileSync(join(modular, 'b.css'), 'i {}\n')
const broken = join(folder, 'broken')
mkdirSync(broken)
writeFileSync(join(broken, 'index.html'), '<script type="module" src="/broken/app.js"></script>')
const appSource = `import './first.js'
import {
  number as late,
} from './number.js'

report(late)
`
writeFileSync(join(modular, 'app.js'), appSource)
writeFileSync(join(modular, 'first.js'), "import { number } from './number.js'\nreport('late')\n")
writeFileSync(join(modular, 'number.js'), 'export const number = 42\n')

const app = publicServer()
app.register(pages, { folder: { root, prefix: '/dashboard' } })
app.register(startPage, { path: '/dashboard' })
app.register(pages, { folder: { root, prefix: '/second' } })
app.register(pages, { folder: { root: modular, prefix: '/modules' } })
const get = (url: string, headers = {}) => app.inject({ method: 'GET', url, headers })

afterAll(() => rmSync(folder, { recursive: true }))

test('the page is served with and without a slash at the end, more than one folder if need be', async () => {
  for (const url of ['/dashboard', '/dashboard/', '/second', '/second/', '/dashboard?client=x']) {
    const page = await get(url)
    expect([url, page.statusCode]).toEqual([url, 200])
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(page.body).toContain('<title>Dashboard</title>')
    expect(page.headers['content-security-policy']).toContain("script-src 'self'")
  }
  const script = await get('/dashboard/app.js')
  expect(script.headers['content-type']).toMatch(/^(text|application)\/javascript/)
})

test('the bare address redirects browsers to the page, and is 404 for programs', async () => {
  const accept = 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8'
  const browser = await get('/?from=bookmark', { accept })
  expect([browser.statusCode, browser.headers.location]).toEqual([302, '/dashboard'])
  for (const headers of [{}, { accept: '*/*' }, { accept: 'application/json' }]) {
    const program = await get('/', headers)
    expect([program.statusCode, program.json().code]).toEqual([404, 'NOT_FOUND'])
    expect(program.headers.vary).toContain('accept')
  }
})

test('browsers revalidate each time and get 304 while nothing changed', async () => {
  const first = await get('/dashboard/')
  expect(first.headers['cache-control']).toBe('no-cache')
  const again = await get('/dashboard/', { 'if-none-match': first.headers.etag })
  expect([again.statusCode, again.body]).toEqual([304, ''])
})

test('modules and style sheets come as one file each, compressed, kept until they change', async () => {
  const html = (await get('/modules')).body
  const [style = '', script = '', later = '', ...more] = [
    ...html.matchAll(/(?:href|src|content)="([^"]+)"/g),
  ].map((match) => String(match[1]))
  expect([style, script, later, more.length]).toEqual([
    expect.stringMatching(/^\/modules\/page\.css\?v=[\w-]{16}$/),
    expect.stringMatching(/^\/modules\/page\.js\?part=es&amp;v=[\w-]{16}$/),
    expect.stringMatching(/^\/modules\/later\.js\?v=[\w-]{16}$/),
    0,
  ])
  expect((await get(style)).body).toBe('b {}\n\ni {}\n')
  const plain = await get(script.replace('&amp;', '&'))
  const seen: unknown[] = []
  runInNewContext(plain.body, { report: (value: unknown) => seen.push(value) })
  expect(seen).toEqual(['late', 42])
  expect(plain.headers).toMatchObject({
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'accept-encoding',
    'x-content-type-options': 'nosniff',
  })
  expect((await get('/modules/page.js?v=other')).headers['cache-control']).toBe('no-cache')
})

test('a page is in the chosen language, else in that of the browser, with one cached answer for each', async () => {
  const own = publicServer()
  own.register(pages, { folder: { root: join(publicFolder, 'admin'), prefix: '/admin' } })
  for (const [headers, language] of [
    [{}, 'es'],
    [{ 'accept-language': 'pt-BR,en;q=0.5' }, 'es'],
    [{ 'accept-language': 'en-GB,en;q=0.9' }, 'en'],
    [{ 'accept-language': 'en-GB', cookie: 'a=b; tillbridge.language=es' }, 'es'],
    [{ cookie: 'tillbridge.language=en' }, 'en'],
    [{ cookie: 'tillbridge.language=toString' }, 'es'],
  ] as const) {
    const page = await own.inject({ url: '/admin', headers })
    expect([headers, page.body]).toEqual([headers, expect.stringContaining(`lang="${language}"`)])
    expect(page.headers.vary).toBe('accept-encoding, accept-language, cookie')
    const [, path = ''] = /src="([^"]+)"/.exec(page.body) ?? []
    const script = await own.inject(path.replace('&amp;', '&'))
    expect(script.headers['cache-control']).toContain('immutable')
    expect(script.body).toContain(`held['/admin/texts/${language}.js'] ??=`)
    const others = [...script.body.matchAll(/bundledPart\('[^']+', '([^']+)'\)/g)]
    expect(others.length).toBeGreaterThan(1)
    for (const [, other = ''] of others) {
      const part = await own.inject(other)
      expect(part.headers['cache-control']).toBe('public, max-age=31536000, immutable')
      expect(part.body).toContain('export const add')
    }
  }
  expect((await own.inject('/admin/page.js?part=none')).statusCode).toBe(404)
})

test('the charting library is the one of its package, compressed, kept under the name that the pages use', async () => {
  const own = publicServer()
  own.register(sharedParts)
  own.register(pages, { folder: { root: join(publicFolder, 'admin'), prefix: '/admin' } })
  const { body: html } = await own.inject('/admin')
  const [, url = ''] = /<meta name="later:charts" content="([^"]+)"/.exec(html) ?? []
  const answer = await own.inject({ url, headers: { 'accept-encoding': 'br' } })
  expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable')
  expect(brotliDecompressSync(answer.rawPayload).toString()).toBe(
    readFileSync(join(vendor.root, 'uPlot.iife.min.js'), 'utf8'),
  )
  const style = await own.inject('/admin/page.css')
  expect(style.body).toContain('.u-over')
  expect((await own.inject('/vendor/uPlot.d.ts')).statusCode).toBe(404)
})

test.each([
  ['gzip, deflate', 'gzip', gunzipSync],
  ['gzip, br;q=1.0', 'br', brotliDecompressSync],
  ['br;q=0, gzip;q=0', undefined, undefined],
  ['zstd', undefined, undefined],
] as const)('a browser that takes %s gets %s', async (accepted, encoding, unpack) => {
  const plain = await get('/modules/page.js')
  const answer = await get('/modules/page.js', { 'accept-encoding': accepted })
  expect(answer.headers['content-encoding']).toBe(encoding)
  const content = unpack ? unpack(answer.rawPayload).toString() : answer.body
  expect(content).toBe(plain.body)
})

test.each([
  ['import more from "./b.js"', /cannot hold import more/],
  ['export default 1', /cannot hold export default/],
  ["import './app.js'\n", /imports itself/],
  ["import './missing.js'\n", /no such file/],
  ["import '../../secret.txt'\n", /none of the pages/],
])('a module with %s fails its page and nothing else', async (source, message) => {
  writeFileSync(join(broken, 'app.js'), source)
  expect(() => bundlePage({ root: broken, prefix: '/broken' }, [])).toThrow(message)
})

test.each([
  '/dashboard/nope.js',
  '/dashboard/.hidden',
  '/dashboard/empty',
  '/dashboard/empty/',
  '/dashboard/../secret.txt',
  '/dashboard/..%2fsecret.txt',
  '/dashboard/%2e%2e/secret.txt',
  '/dashboard/..%5csecret.txt',
  '/dashboard//etc/passwd',
  '/dashboardx',
])('%s is 404 in the error shape', async (url) => {
  const answer = await get(url)
  expect(answer.statusCode).toBe(404)
  expect(answer.json()).toMatchObject({ code: 'NOT_FOUND' })
  expect(answer.headers['cache-control']).toBe('no-store')
})

test('NUL in a path of pages is refused, not an error of ours', async () => {
  const answer = await get('/dashboard/a%00b')
  expect(answer.statusCode).toBe(422)
})

test.each(['bytes=999-', 'bytes=x', 'bytes=0-0,2-3'])(
  'the range %s is ignored: pages are small',
  async (range) => {
    const answer = await get('/dashboard/', { range })
    expect(answer.statusCode).toBe(200)
  },
)

test('a broken link in the folder is not an error of ours', async () => {
  symlinkSync(join(root, 'missing'), join(root, 'loop'))
  expect((await get('/dashboard/loop')).statusCode).toBe(404)
})
