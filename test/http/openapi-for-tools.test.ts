import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { errorCatalogue } from '../../src/errors/app-error.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'

/** What both documents promise to whatever reads them: generators, validators in other languages, and the page at /docs. */
type Json = Record<string, unknown>
type Listed = {
  operationId: string
  parameters?: { name: string; schema: Json; description?: string }[]
  responses: Record<string, { content?: Record<string, { examples?: Record<string, Example> }> }>
}
type Example = { value: { error: string; code?: string; outcome?: string; retry_safe?: boolean } }
type Document = {
  info: { description: string }
  paths: Record<string, Record<string, Listed>>
  components: { schemas: Record<string, Json> }
}

let flows: TestFlows
const documents: Record<string, { whole: Document; page: Document }> = {}
beforeAll(async () => {
  flows = await startTestFlows()
  for (const [name, { app }] of Object.entries({ payment: flows.service, control: flows })) {
    const read = async (url: string) =>
      (await app.inject({ url, headers: { host: '127.0.0.1:8080' } })).json() as Document
    documents[name] = { whole: await read('/openapi.json'), page: await read('/docs/json') }
  }
})
afterAll(() => flows.stop())

function find(value: unknown, key: string): unknown[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, part]) => [
    ...(name === key ? [part] : []),
    ...find(part, key),
  ])
}
const operationsOf = ({ paths }: Document) => Object.values(paths).flatMap(Object.values<Listed>)

describe.each(['payment', 'control'])('the document of the %s API', (api) => {
  const of = () => documents[api] as { whole: Document; page: Document }

  test('has patterns that mean the same to every tool, with Unicode classes or without', () => {
    const patterns = find(of().whole, 'pattern').map(String)
    expect(patterns.length).toBeGreaterThan(0)
    for (const pattern of patterns) {
      // Lookaround, classes by property and code points by name are what Go, Java, Python and a RegExp without flag differ in.
      expect(pattern).not.toMatch(/\(\?[^:]|\\[pPuk]|\\[1-9]/)
      const [plain, unicode] = [new RegExp(pattern), new RegExp(pattern, 'u')]
      for (const text of ['acme', 'Niño Ñandú', '😀', 'a\nb', '\u0085', 'ORD01', '12', '']) {
        expect(plain.test(text), `${pattern} of ${JSON.stringify(text)}`).toBe(unicode.test(text))
      }
    }
  })

  test('has no default for a parameter, so that the page fills in nothing', () => {
    for (const { operationId, parameters = [] } of operationsOf(of().page)) {
      for (const { name, schema } of parameters) {
        expect(Object.keys(schema), `${operationId} ${name}`).not.toContain('example')
        expect(Object.keys(schema), `${operationId} ${name}`).not.toContain('default')
      }
    }
  })

  test('shows the body of each error status', () => {
    for (const { operationId, responses } of operationsOf(of().whole)) {
      for (const [status, { content }] of Object.entries(responses)) {
        const { examples } = content?.['application/json'] ?? {}
        if (Number(status) < 400 || !examples) continue
        for (const [name, { value }] of Object.entries(examples)) {
          // A code that a route answers in several ways has a number from the second on.
          const [code = ''] = name.split(' ')
          const known = errorCatalogue[code as keyof typeof errorCatalogue]
          const own = api === 'control' && known.status === 422 ? 400 : known.status
          expect([own, value.error.length > 0], `${operationId} ${status}`).toEqual([
            Number(status),
            true,
          ])
          if (api === 'payment') expect(value.code).toBe(code)
        }
      }
    }
  })
})

test('the examples of errors of money routes have outcome and retry_safe', () => {
  const { whole } = documents.payment as { whole: Document }
  const refused = whole.paths['/orders']?.post?.responses['409']?.content?.['application/json']
  const busy = refused?.examples?.TERMINAL_BUSY
  expect([busy?.value.outcome, typeof busy?.value.retry_safe]).toEqual(['not_charged', 'boolean'])
})

test('the page lists the routes before the codes of errors, and the document still names each', () => {
  const { whole, page } = documents.payment as { whole: Document; page: Document }
  const [first, codes] = Object.entries(page.components.schemas)[0] as [string, Json]
  expect(first).toBe('ErrorCodes')
  for (const code of Object.keys(errorCatalogue)) {
    expect(page.info.description).not.toContain(code)
    expect(codes.description).toContain(code)
    expect(whole.info.description).toContain(code)
  }
})
