import { globSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ErrorCode, errorCatalogue } from '../../src/errors/app-error.ts'
import { isReasonCode, type ReasonCode, sentenceOf } from '../../src/texts/reason.ts'
import { jsonFlow, startTarget, startTestFlows, type TestFlows } from '../support/flows.ts'

/** Refusals of the control API have a sentence in both languages, from the one catalogue of reasons. */

const sources = [
  ...globSync('src/{flows,http}/**/*.ts'),
  ...globSync('src/app/control-*.ts'),
  ...globSync('src/payments/people/*.ts'),
].map((file) => ({ file, text: readFileSync(file, 'utf8') }))

/** Every error code that code of the control API names. */
const thrown = new Set(
  sources.flatMap(({ text }) =>
    [...text.matchAll(/'([A-Z]+(?:_[A-Z]+)*)'/g)]
      .map(([, code]) => code as ErrorCode)
      .filter((code) => Object.hasOwn(errorCatalogue, code)),
  ),
)
/** Of people's accounts and of the payment API, which this listener does not serve. */
const ofOthers = new Set<ErrorCode>(['INVITATION_INVALID'])

test('every error code of the control API has a sentence in both languages', () => {
  expect(thrown.size).toBeGreaterThan(10)
  const codes = [...thrown].filter((code) => !ofOthers.has(code))
  expect(codes.filter((code) => !isReasonCode(code))).toEqual([])
})

test('the English sentence of an error code is that of the catalogue of errors', () => {
  const shared = Object.keys(errorCatalogue).filter(isReasonCode)
  expect(shared.length).toBeGreaterThan(10)
  for (const code of shared as (ErrorCode & ReasonCode)[]) {
    expect(sentenceOf({ code }, 'en')).toBe(errorCatalogue[code].text)
  }
})

test('every refusal of the control API has a code', () => {
  const own = sources.filter(({ file }) => /src\/(flows|app)\//.test(file))
  const plain = own.filter(({ file, text }) => {
    const errors = [...text.matchAll(/new AppError\('\w+', \{[^}]*message/g)]
    return errors.length > 0 && !file.endsWith('flows/control-errors.ts')
  })
  expect(plain.map(({ file }) => file)).toEqual([])
})

let flows: TestFlows

beforeAll(async () => {
  flows = await startTestFlows({
    files: {
      'articles.flow.yaml': jsonFlow('articles', 'http://127.0.0.1:9'),
      'articles.json': [],
    },
  })
})
afterAll(() => flows?.stop())

const call = async (method: 'GET' | 'POST', url: string, language?: string, body?: unknown) => {
  const headers = language === undefined ? {} : { 'accept-language': language }
  return flows.call(method, url, { headers, ...(body !== undefined && { body }) })
}

test.each([
  ['GET', '/flow/nobody/waiting', 404, 'No existe ese flujo', 'There is no such flow'],
  [
    'GET',
    '/flow-files/nobody.flow.yaml',
    404,
    'No existe ese archivo de flujo',
    'There is no such flow file',
  ],
  ['GET', '/nowhere', 404, 'No existe', 'Not found'],
  [
    'POST',
    '/flow/articles/test-alerts',
    400,
    'El flujo no tiene canales de alerta',
    'The flow has no alert channels',
  ],
  [
    'POST',
    '/flow/articles/limit/0',
    400,
    'El pedido tiene valores que no se permiten: count',
    'count: ',
  ],
] as const)('%s %s is refused in the reader’s language', async (method, url, status, es, en) => {
  const spanish = await call(method, url, 'es-AR,es;q=0.9')
  expect([spanish.statusCode, spanish.json()]).toEqual([status, { error: es }])
  for (const language of ['en-GB', '*', undefined]) {
    const english = await call(method, url, language)
    expect([english.statusCode, english.json()]).toEqual([
      status,
      { error: expect.stringContaining(en) },
    ])
  }
})

test('the reason why a test message did not arrive is in the reader’s language', {
  tags: ['long'],
}, async () => {
  const receiver = await startTarget()
  receiver.answer(307)
  try {
    const onJobFailed = [{ type: 'webhook', url: `${receiver.url}/hook` }]
    await flows.write('told.flow.yaml', jsonFlow('told', receiver.url, { alerts: { onJobFailed } }))
    await flows.write('told.json', [])
    expect((await call('POST', '/flows/reload')).json().problems).toEqual([])
    const { results } = (await call('POST', '/flow/told/test-alerts', 'es')).json()
    expect(results[0]).toMatchObject({
      ok: false,
      error: 'HTTP 307 (redirects are not followed)',
      why: { code: 'HTTP_REDIRECT', message: 'HTTP 307 (no se siguen los redireccionamientos)' },
    })
  } finally {
    await receiver.close()
  }
})
