import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestFlows, type TestFlows } from '../support/flows.ts'

let flows: TestFlows
beforeAll(async () => {
  flows = await startTestFlows()
})
afterAll(() => flows.stop())

const root = fileURLToPath(new URL('../..', import.meta.url))
const pages = [
  'README.md',
  ...readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
]

/** Routes that are no part of the described interfaces: pages, and the sandbox. */
const pagesOfOurs = /^\/((dashboard|admin|docs|openapi\.json)?$|_sandbox\/)/

type Named = { page: string; port: string | undefined; method: string; path: string }

/** What the pages tell people to call: `POST /orders` in their text, and the curl lines. */
function namedRoutes(page: string): Named[] {
  const text = readFileSync(`${root}${page}`, 'utf8').replace(/\\\n\s*/g, ' ')
  const inText = [...text.matchAll(/`(GET|POST|PUT|PATCH|DELETE) (\/[^\s`?]*)/g)].map(
    ([, method = '', path = '']) => ({ page, port: undefined, method, path }),
  )
  const inCurl = text.match(/^curl .*$/gm) ?? []
  const called = inCurl.flatMap((line) => {
    const [, port, path = ''] = /127\.0\.0\.1:(3000|8080)(\/[^\s'"?#]*)/.exec(line) ?? []
    const given = /-X ([A-Z]+)/.exec(line)?.[1]
    const method = given ?? (/ -d /.test(line) ? 'POST' : 'GET')
    return port === undefined ? [] : [{ page, port, method, path }]
  })
  return [...inText, ...called]
}

async function routesOf(app: TestFlows['app']): Promise<{ method: string; path: RegExp }[]> {
  const { paths } = (await app.inject({ url: '/openapi.json' })).json()
  return Object.entries(paths as Record<string, object>).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => ({
      method: method.toUpperCase(),
      path: new RegExp(`^${path.replaceAll('.', '\\.').replace(/\{[^}]+\}/g, '[^/]+')}$`),
    })),
  )
}

test('every route that the pages name is one of the listener that they name', {
  tags: ['long'],
}, async () => {
  const payment = await routesOf(flows.service.app)
  const control = await routesOf(flows.app)
  const named = pages.flatMap(namedRoutes).filter(({ path }) => !pagesOfOurs.test(path))
  expect(named.length).toBeGreaterThan(40)
  for (const { page, port, method, path } of named) {
    const routes = [...(port === '8080' ? [] : payment), ...(port === '3000' ? [] : control)]
    const isThere = routes.some((route) => route.method === method && route.path.test(path))
    expect(isThere, `${page}: ${method} ${path}`).toBe(true)
  }
})
