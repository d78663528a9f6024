import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pagesOfViews } from '../../src/http/guide-pages.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'

let flows: TestFlows
beforeAll(async () => {
  flows = await startTestFlows()
})
afterAll(() => flows.stop())

const docs = fileURLToPath(new URL('../../docs/', import.meta.url))
const paths = globSync('**/*.md', { cwd: docs }).map((file) =>
  `/guide/${file.replace(/\.md$/, '').replace(/(^|\/)README$/, '')}`.replace(/(.)\/$/, '$1'),
)
const listeners = () => [flows.service.app, flows.app]
const read = (url: string) => flows.service.app.inject({ url })

test('each listener serves every document, without a script', { tags: ['long'] }, async () => {
  expect(paths.length).toBeGreaterThan(50)
  for (const app of listeners()) {
    const page = await app.inject({
      url: '/guide/how-to/refund',
      headers: { host: '127.0.0.1:8080' },
    })
    expect(page.statusCode).toBe(200)
    expect(page.body).toContain('<h1 id="refund-a-charge">Refund a charge</h1>')
  }
  for (const url of paths) {
    const page = await read(url)
    expect(page.statusCode, url).toBe(200)
    expect(page.body, url).not.toMatch(/<script|style=|&lt;!--/)
  }
})

test('every link of the guide leads to a page, and to a heading that is there', {
  tags: ['long'],
}, async () => {
  const pages = new Map<string, string>()
  for (const url of paths) pages.set(url.replace(/\/$/, ''), (await read(url)).body)
  let links = 0
  for (const [from, body] of pages) {
    for (const [, href = ''] of body.matchAll(/href="(\/guide[^"]*|#[^"]*)"/g)) {
      if (href.endsWith('.css')) continue
      const [path = '', anchor] = href.split('#')
      const target = pages.get(path === '' ? from : path.replace(/\/$/, ''))
      expect(target, `${from}: ${href}`).toBeDefined()
      if (anchor !== undefined) expect(target, `${from}: ${href}`).toContain(`id="${anchor}"`)
      links += 1
    }
  }
  expect(links).toBeGreaterThan(200)
})

test('a search finds sections of pages, with and without accents, and shows a text when there is none', async () => {
  const english = (await read('/guide/search?q=restore+backup')).body
  expect(english).toContain('href="/guide/how-to/back-up-and-restore#restore"')
  const spanish = (await read('/guide/search?q=devolucion&language=es')).body
  expect(spanish).toContain('<html lang="es">')
  expect(spanish).toContain('/guide/es/')
  expect((await read('/guide/search?q=xyzzyqwert')).body).toContain('Nothing found')
})

test('the words of a search are escaped', async () => {
  const { body } = await read(
    `/guide/search?q=${encodeURIComponent('"><script>alert(1)</script>')}`,
  )
  expect(body).not.toContain('<script')
  expect(body).toContain('&#60;script&#62;')
})

test('a page that is not there is 404, also outside of the documents', async () => {
  for (const url of ['/guide/no-such-page', '/guide/../package.json', '/guide/%2e%2e/package'])
    expect((await read(url)).statusCode, url).toBe(404)
  expect(readFileSync(`${docs}README.md`, 'utf8')).toContain('# Documentation')
})

test('each view of the pages leads to its page of the guide, in the language of the page', {
  tags: ['long'],
}, async () => {
  const views = ['dashboard', 'admin'].flatMap((folder) =>
    [
      ...readFileSync(
        new URL(`../../public/${folder}/workspace.js`, import.meta.url),
        'utf8',
      ).matchAll(
        /(\w+): (?:create\w+,|(?:later|eventsLater)\.create\('(?!trend)|\(app\) =>)|later\.create\('(order)'\)/g,
      ),
    ].map(([, name, order]) => String(name ?? order)),
  )
  expect(Object.keys(pagesOfViews).toSorted()).toEqual([...new Set(views)].toSorted())
  for (const view of views) {
    for (const language of ['en', 'es']) {
      const led = await read(`/guide/view/${language}/${view}`)
      expect(led.statusCode).toBe(302)
      expect((await read(String(led.headers.location))).statusCode).toBe(200)
    }
  }
  expect((await read('/guide/view/es/closings')).headers.location).toBe('/guide/how-to/close-a-day')
  expect((await read('/guide/view/es/overview')).headers.location).toBe(
    '/guide/es/guia-supervisores',
  )
  expect((await read('/guide/view/en/__proto__')).headers.location).toBe('/guide/')
})
