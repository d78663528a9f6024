import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { createServer } from '../../src/http/create-server.ts'
import { servePages } from '../../src/http/pages.ts'

const folder = mkdtempSync(join(tmpdir(), 'tillbridge-pages-'))
const root = join(folder, 'dashboard')
mkdirSync(root)
writeFileSync(join(folder, 'secret.txt'), 'canary')
writeFileSync(join(root, 'index.html'), '<!doctype html><title>Dashboard</title>')
writeFileSync(join(root, 'app.js'), 'export {}')
writeFileSync(join(root, '.hidden'), 'canary')
mkdirSync(join(root, 'empty'))

const app = createServer({ logger: false })
servePages(app, { root, prefix: '/dashboard' })
servePages(app, { root, prefix: '/second' })
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

test('browsers ask each time and get 304 while nothing changed', async () => {
  const first = await get('/dashboard/')
  expect(first.headers['cache-control']).toBe('no-cache')
  const again = await get('/dashboard/', { 'if-none-match': first.headers.etag })
  expect([again.statusCode, again.body]).toEqual([304, ''])
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
  symlinkSync(join(root, 'gone'), join(root, 'loop'))
  expect((await get('/dashboard/loop')).statusCode).toBe(404)
})
