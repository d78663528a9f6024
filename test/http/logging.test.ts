import { Writable } from 'node:stream'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { AppError } from '../../src/errors/app-error.ts'
import { createLogger, scrub } from '../../src/http/logging.ts'
import { exchange, publicServer } from './sample-app.ts'

function capture(level: 'info' | 'trace' = 'trace') {
  let text = ''
  const sink = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      done()
    },
  })
  return { log: createLogger(level, sink), text: () => text }
}

const canaries = {
  apiKey: `mk_${'c0ffee42'.repeat(8)}`,
  accessToken: 'APP_USR-4242424242-canary-access',
  testToken: 'TEST-4242424242-canary-test',
  refreshToken: 'TG-canaryrefresh-4242',
  bearer: 'canary-bearer-value',
  code: 'canary-oauth-code',
  verifier: 'canary-verifier',
  state: 'canary-state',
  secret: 'canary-client-secret',
  password: 'canary-db-password',
  admin: 'canary-admin-token-0123456789abcdef',
  signature: 'ts=1,v1=canarysignature',
}

function expectNoCanary(text: string) {
  for (const [name, value] of Object.entries(canaries)) {
    expect([name, text.includes(value)]).toEqual([name, false])
  }
}

test('T43: no secret of a request reaches the log, wherever the request carries it', async () => {
  const { log, text } = capture()
  const app = publicServer({ logger: log })
  app.post('/in/:name', async () => ({}))
  const answer = await app.inject({
    method: 'POST',
    url: `/in/${canaries.apiKey}?code=${canaries.code}&state=${canaries.state}&x=${canaries.admin}&token=${canaries.bearer}`,
    headers: {
      'x-api-token': canaries.admin,
      authorization: `Bearer ${canaries.bearer}`,
      cookie: `session=${canaries.state}`,
      'x-signature': canaries.signature,
      'content-type': 'application/json',
    },
    payload: { client_secret: canaries.secret, refresh_token: canaries.refreshToken },
  })
  expect(answer.statusCode).toBe(200)
  expect(JSON.parse(text())).toMatchObject({
    msg: 'request done',
    requestId: answer.headers['x-request-id'],
    req: { method: 'POST', route: '/in/:name', remoteAddress: '127.0.0.1' },
    res: { statusCode: 200 },
  })
  expectNoCanary(text())
})

test('no secret in an error, its causes or its properties reaches the log', async () => {
  const { log, text } = capture()
  const app = publicServer({ logger: log })
  const provider = Object.assign(
    new Error(
      `401 for Bearer ${canaries.bearer} at https://x/oauth?code=${canaries.code}&client_secret=${canaries.secret}`,
    ),
    {
      request: { headers: { authorization: canaries.bearer } },
      body: { access_token: canaries.accessToken, note: canaries.state },
      detail: `Key (token)=(${canaries.admin}) already exists.`,
      code: '23505',
      constraint: 'api_key_hash_key',
    },
  )
  const database = new Error(`connect postgres://till:${canaries.password}@db/till`, {
    cause: provider,
  })
  app.post('/in', async () => {
    throw new AppError('PROVIDER_ERROR', {
      cause: new AggregateError(
        [database, new Error(`key ${canaries.apiKey}`)],
        canaries.testToken,
      ),
    })
  })
  await app.inject({ method: 'POST', url: '/in' })
  expectNoCanary(text())
  expect(text()).toContain('"constraint":"api_key_hash_key"')
  expect(text()).toContain('postgres://till:[masked]@db/till')
})

test('a secret that code logs by mistake is masked by its name or by its form, at any depth', () => {
  const { log, text } = capture()
  log.info({ accessToken: canaries.bearer, client: 'shop' }, 'a')
  log.info(
    { oauth: { refresh_token: canaries.bearer, nested: { deeper: { apiKey: canaries.admin } } } },
    'b',
  )
  log.info({ headers: { 'x-api-token': [canaries.admin] } }, 'c')
  log.info({ encryptionKeys: [{ id: 'k1', key: canaries.admin }] }, 'd')
  log.info(
    `exchange ${JSON.stringify({ code_verifier: canaries.verifier, client_secret: canaries.secret })}`,
  )
  log.info({ body: JSON.stringify({ x: JSON.stringify({ access_token: canaries.admin }) }) }, 'e')
  log.info(
    `code=${canaries.code}&code_verifier=${canaries.verifier} Authorization: Bearer ${canaries.bearer}`,
  )
  log.info(
    `${canaries.apiKey} ${canaries.accessToken} ${canaries.testToken} ${canaries.refreshToken}`,
  )
  log.info({ flow: { auth: { token: Buffer.from(canaries.admin) } } }, 'f')
  log.child({ token: [canaries.admin] }).warn('g')
  const tricky = [{ list: ['x'], text: `]}"\\${canaries.admin}` }]
  log.info({ deep: { secret: { tricky }, token: 4242 }, rest: ['kept'] }, 'h')
  log.info({ deep: { password: `a"${canaries.admin}` } }, 'i')
  expectNoCanary(text())
  const lines = text().trim().split('\n')
  expect(lines).toHaveLength(12)
  for (const line of lines) expect(JSON.parse(line)).toMatchObject({ time: expect.any(String) })
  expect(text()).not.toContain(String([...Buffer.from(canaries.admin)].slice(0, 5)))
  expect(text()).toContain('"client":"shop"')
  expect(text()).toContain('"deep":{"secret":"[masked]","token":"[masked]"},"rest":["kept"]')
})

test('text that is no secret stays readable', () => {
  for (const line of [
    '{"code":"NOT_FOUND","status":409,"state":"created"}',
    '{"orderId":"7d2f","externalReference":"TICKET-1","mpOrderId":"ORD01"}',
    '{"msg":"error_code=42 statuscode=200 keys=3"}',
  ]) {
    expect(scrub(line)).toBe(line)
  }
})

test('T43: a request cannot write lines or terminal commands into the log', async () => {
  const { log, text } = capture()
  const app = publicServer({ logger: log })
  await exchange(
    app,
    'GET /%0a%7b%22level%22:%22fatal%22%7d\u009b31m\u2028?a%0d%0ab=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
  )
  log.info({ name: 'a\r\nb\u001b[31m\u009b31m\u2028c\u007f' }, 'x\ny')
  await app.close()
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
  expect(text().replaceAll('\n', '')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/)
  const lines = text().trim().split('\n')
  for (const line of lines) expect(JSON.parse(line).level).toBe('info')
  expect(JSON.parse(lines.find((line) => line.includes('"name"')) ?? '').name).toBe(
    'a\r\nb\u001b[31m\u009b31m\u2028c\u007f',
  )
})

test('an address as long as a request allows does not fill the log', async () => {
  const { log, text } = capture('info')
  const app = publicServer({ logger: log })
  await app.inject({ method: 'GET', url: `/${'a'.repeat(10_000)}?${'b'.repeat(4000)}=1` })
  expect(text().length).toBeLessThan(2000)
})

test('the scrubber takes time in proportion to the line', () => {
  const startedMs = performance.now()
  for (const part of [
    'a',
    '"token":"',
    '"token":[',
    '"token":{"a":',
    'code=',
    '\\\\"secret\\\\":\\\\"',
    '://',
    'Bearer ',
    'TEST-',
  ]) {
    scrub(part.repeat(20_000))
  }
  expect(performance.now() - startedMs).toBeLessThan(1000)
})

test('the log has the class of an error, also of one without a name', () => {
  class StoreError extends Error {}
  const { log, text } = capture()
  log.error({ err: new StoreError('closed', { cause: new TypeError('no') }) }, 'failed')
  expect(JSON.parse(text()).err).toMatchObject({ type: 'StoreError', cause: { type: 'TypeError' } })
})

describe('T37: refused requests of unknown callers', () => {
  afterEach(() => {
    vi.useRealTimers()
  })
  const linesOf = (text: string) =>
    text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))

  test('are counted in one line a minute for each cause, after the first one', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { log, text } = capture('info')
    const app = publicServer({ logger: log })
    app.get('/closed', async () => {
      throw new AppError('UNAUTHORIZED')
    })
    const ask = async (url: string, times: number) => {
      for (let round = 0; round < times; round += 1) await app.inject({ url })
    }
    await ask('/closed', 50)
    await ask('/no-such-path', 20)
    expect(linesOf(text()).map(({ code, req }) => [code, req.url])).toEqual([
      ['UNAUTHORIZED', '/closed'],
      ['NOT_FOUND', '/no-such-path'],
    ])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(linesOf(text()).slice(2)).toMatchObject([
      { code: 'UNAUTHORIZED', count: 49 },
      { code: 'NOT_FOUND', count: 19 },
    ])
    await ask('/closed', 3)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(linesOf(text()).slice(4)).toMatchObject([{ code: 'UNAUTHORIZED', count: 3 }])
    // A quiet minute ends it: the next one is written in full again.
    await vi.advanceTimersByTimeAsync(60_000)
    await ask('/closed', 2)
    expect(linesOf(text()).slice(5)).toMatchObject([
      { code: 'UNAUTHORIZED', req: { url: '/closed' } },
    ])
    await app.close()
    expect(linesOf(text()).slice(6)).toMatchObject([{ code: 'UNAUTHORIZED', count: 1 }])
  })

  test('that cannot be read are counted too', async () => {
    const { log, text } = capture('info')
    const app = publicServer({ logger: log })
    for (let round = 0; round < 5; round += 1) await exchange(app, 'not http\r\n\r\n')
    await app.close()
    const refusals = linesOf(text()).filter(({ code }) => code !== undefined)
    expect(refusals.map(({ code, count }) => [code, count])).toEqual([
      ['BAD_REQUEST', undefined],
      ['BAD_REQUEST', 4],
    ])
  })

  test('are not those of a caller that the guard let in: each of these has its lines', async () => {
    const { log, text } = capture('info')
    const app = publicServer({ logger: log })
    app.get('/open', async (request) => {
      request.isLetIn = true
      throw new AppError('NOT_FOUND')
    })
    for (let round = 0; round < 2; round += 1) await app.inject({ url: '/open' })
    expect(linesOf(text()).map(({ msg }) => msg)).toEqual([
      'request refused',
      'request done',
      'request refused',
      'request done',
    ])
    await app.close()
  })
})
