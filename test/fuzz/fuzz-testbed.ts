import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Database } from '../../src/db/database.ts'
import { hashSecret } from '../../src/domain/secret-hash.ts'
import { jsonFlow, startTestFlows, type TestFlows } from '../support/flows.ts'
import { cancel, deliver, newAccount, refund } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  createStore,
  enrol,
  openShop,
  payByCard,
  readOrder,
  type Till,
} from '../support/till.ts'
import type { Callers } from './requests.ts'
import type { Known } from './values.ts'

export type ListenerName = 'payment' | 'control'

export type FuzzTestbed = {
  service: TestService
  flows: TestFlows
  /** Base address of each listener. */
  urls: Record<ListenerName, string>
  /** New clients with keys, sessions, stores and orders in every state, since requests use up what there is. */
  renew(): Promise<void>
  /** Puts in what exists now for names such as `{{order:paid}}`. */
  fill(text: string, encode?: (value: string) => string): string
  /** Headers that identify this caller. */
  callerHeaders(caller: string): Record<string, string>
  /** Secrets that no answer may contain. */
  canaries(): readonly string[]
  stop(): Promise<void>
}

const syncToken = 'sync-token-of-the-fuzzer-0123456789abcdef'
const targetSecret = 'canary-of-the-target-0123456789abcdef'

/** Who may call, on each listener. */
export const callersOf: Record<ListenerName, Callers> = {
  payment: {
    all: [
      'own key',
      'admin',
      'anonymous',
      'malformed',
      'wrong key',
      'revoked key',
      'other key',
      'sync token',
      'session',
      'session of the admin',
      'session from another site',
    ],
    entitled: (tokens) =>
      tokens.includes('clientKey')
        ? ['own key', 'own key', 'own key', 'session', 'admin']
        : ['admin', 'admin', 'session of the admin'],
  },
  control: {
    all: [
      'sync token',
      'anonymous',
      'malformed',
      'wrong key',
      'own key',
      'admin',
      'session of the admin',
    ],
    entitled: () => ['sync token'],
  },
}

const orderIds = [
  'order:open',
  'order:paid',
  'order:refunded',
  'order:canceled',
  'order:other',
  'mp:paid',
  'mp:other',
]
const knownFields: Record<ListenerName, Record<string, readonly string[]>> = {
  payment: {
    order_id: orderIds,
    orderId: orderIds,
    idempotencyKey: orderIds,
    storeExternalId: ['store', 'store:odd', 'store:other'],
    sucursal_id: ['store', 'store:odd', 'store:other'],
    posExternalId: ['box', 'box:other'],
    caja_id: ['box', 'box', 'box:bare', 'box:other'],
    closingId: ['closing', 'closing:other'],
    orphanId: ['order:paid'],
    chargebackId: ['order:paid'],
    external_id: ['store', 'box'],
    terminalId: ['terminal', 'terminal:other'],
    client: ['client', 'client', 'client', 'client:other', 'client:retired'],
    clientName: ['client', 'client:other', 'client:retired'],
    key_id: ['key', 'key:other'],
    id: ['webhook'],
    invitation: ['invitation'],
    state: ['state'],
    cursor: ['cursor:orders', 'cursor:activity'],
    token: ['token'],
    'data.id': ['mp:paid'],
  },
  control: { name: [], flow: [], pk: [] },
}
/** Values that are the same in every run. */
const plainFields: Record<ListenerName, Record<string, readonly string[]>> = {
  payment: {
    amount: ['1,00', '1234,50', '0,01'],
    external_reference: ['PAID', 'OPEN', 'NEW-1', 'NEW-2'],
    city_name: ['Balvanera'],
    state_name: ['Capital Federal'],
    target_url: ['http://127.0.0.1:3000/dashboard', 'https://evil.example/'],
    business_day: ['2026-01-05', '2026-01-06'],
    time_zone: ['America/Lima'],
    from: ['2026-11-01T00:00:00Z', '2026-11-21T00:00:00-03:00'],
    to: ['2026-12-01T00:00:00Z'],
  },
  control: {
    name: ['articles', 'refused', 'broken', 'patient', 'gone'],
    flow: ['articles', 'refused', 'broken'],
    pk: ['A-1', 'A-2', 'B/1|x', 'none'],
    destination: ['web'],
    adapter: ['web', 'source'],
    count: ['1', '3', '1000000'],
    file: ['articles.flow.yaml', 'new.flow.yaml', '..%2Fx.flow.yaml'],
    template: ['woocommerce', 'sql-table'],
    version: ['20261127T010203123Z'],
  },
}

export function knownOf(listener: ListenerName): Known {
  return (field) => {
    const names = knownFields[listener][field]?.map((name) => `{{${name}}}`) ?? []
    const all = [...names, ...(plainFields[listener][field] ?? [])]
    return all.length === 0 ? undefined : all
  }
}

/** Both listeners of a service on its sandbox provider, on sockets of loopback. */
export async function openTestbed(database?: Database): Promise<FuzzTestbed> {
  const service = await startTestService({
    ...(database && { database }),
    env: {
      AUTH_FAILURES_PER_MINUTE: '1000000',
      OAUTH_ENROLMENT: 'open',
    },
    streams: { longestMs: 1 },
  })
  const target = await startEcho()
  const flows = await startTestFlows({
    service,
    env: {
      SYNC_TOKEN: syncToken,
      AUTH_FAILURES_PER_MINUTE: '1000000',
      TARGET_SECRET: targetSecret,
    },
    streams: { longestMs: 1 },
    files: flowFiles(target.url),
  })
  const urls = { payment: await listen(service), control: await listen(flows) }
  for (const name of ['articles', 'refused', 'broken']) {
    await flows.flows.sync(name, { force: true }).catch(() => undefined)
  }

  let values = new Map<string, string>()
  let secrets: string[] = []
  const renew = async () => {
    const made = await makeClients(service)
    values = made.values
    secrets = [
      adminToken,
      syncToken,
      targetSecret,
      service.sandbox.info.client_secret,
      ...service.sandbox.info.webhook_secrets,
      ...service.encryptionKeys.flatMap(({ key }) => [key.toString('base64'), key.toString('hex')]),
      ...made.secrets,
    ]
  }
  await renew()

  const value = (name: string) => {
    const found = values.get(name)
    if (found === undefined) throw new Error(`there is no ${name}`)
    return found
  }
  return {
    service,
    flows,
    urls,
    renew,
    fill: (text, encode = String) =>
      text.replace(/\{\{([^{}]+)\}\}/g, (_, name: string) => encode(value(name))),
    callerHeaders: (caller) => callerHeaders(caller, value),
    canaries: () => secrets,
    async stop() {
      await flows.stop()
      await service.stop()
      await target.close()
    },
  }
}

function callerHeaders(caller: string, value: (name: string) => string): Record<string, string> {
  const ownPage = { 'sec-fetch-site': 'same-origin' }
  switch (caller) {
    case 'anonymous':
      return {}
    case 'malformed':
      return { 'x-api-token': '\u00ff mk_' }
    case 'wrong key':
      return { 'x-api-token': `mk_${'0'.repeat(64)}` }
    case 'sync token':
      return { 'x-api-token': syncToken }
    case 'admin':
      return { 'x-api-token': adminToken }
    case 'own key':
      return { 'x-api-token': value('token') }
    case 'other key':
      return { 'x-api-token': value('token:other') }
    case 'revoked key':
      return { 'x-api-token': value('token:retired') }
    case 'session':
      return { cookie: value('cookie'), ...ownPage }
    case 'session of the admin':
      return { cookie: value('cookie:admin'), ...ownPage }
    case 'session from another site':
      return { cookie: value('cookie'), 'sec-fetch-site': 'cross-site' }
    default:
      throw new Error(`no such caller: ${caller}`)
  }
}

let generation = 0

async function makeClients(service: TestService) {
  generation += 1
  const own = await openShop(service, `acme ${generation}`, newAccount())
  const other = await openShop(service, `other ${generation}`, newAccount())
  const retired = await enrol(service, `retired ${generation}`, newAccount())
  await createStore(service, own, { id: 'año 1/2|%', boxes: ['CAJA-2'] })
  await createStore(service, other, { id: 'O-STORE', boxes: ['O-BOX'] })
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: retired.client } })

  const paid = await pay(service, own, 'PAID')
  const refunded = await pay(service, own, 'REFUNDED')
  await refund(service, own, refunded.id)
  const canceled = (await charge(service, own, { reference: 'CANCELED' })).json().order_id
  await cancel(service, own, canceled)
  const others = await pay(service, other, 'PAID')
  const open = (await charge(service, own, { reference: 'OPEN' })).json().order_id
  await deliver(service, { dataId: paid.providerId })

  const closings = await Promise.all([own, other].map((till) => openClosing(service, till)))
  await service.paymentWatch.watchOnce()

  const login = await call(service, {
    url: `/oauth/login?client=${encodeURIComponent(`new ${generation}`)}`,
  })
  const state = new URL(String(login.headers.location)).searchParams.get('state') ?? ''
  const invited = await asAdmin(service, {
    url: '/admin/invitations',
    body: { client: `invited ${generation}` },
  })
  const invitation = new URL(invited.json().url).searchParams.get('invitation') ?? ''
  const first = async (path: string) => (await asAdmin(service, { url: path })).json()
  const keys = (await first('/api-keys')).keys as { id: string; client: string }[]
  const keyOf = ({ client }: Till) => keys.find((key) => key.client === client)?.id ?? ''
  const values = new Map([
    ['client', own.client],
    ['client:other', other.client],
    ['client:retired', retired.client],
    ['token', own.key],
    ['token:other', other.key],
    ['token:retired', retired.key],
    ['cookie', await signIn(service, own.key)],
    ['cookie:admin', await signIn(service, adminToken)],
    ['key', keyOf(own)],
    ['key:other', keyOf(other)],
    ['order:paid', paid.id],
    ['mp:paid', paid.providerId],
    ['order:refunded', refunded.id],
    ['order:canceled', canceled],
    ['order:open', open],
    ['order:other', others.id],
    ['mp:other', others.providerId],
    ['store', 'SUC-1'],
    ['store:odd', 'año 1/2|%'],
    ['store:other', 'O-STORE'],
    ['box', 'CAJA-1'],
    ['box:bare', 'CAJA-2'],
    ['box:other', 'O-BOX'],
    ['closing', closings[0] ?? ''],
    ['closing:other', closings[1] ?? ''],
    ['terminal', own.terminalId],
    ['terminal:other', other.terminalId],
    ['webhook', (await first('/admin/webhooks/logs?limit=1')).logs[0].id],
    ['cursor:orders', (await first('/admin/orders?limit=1')).next_cursor],
    ['cursor:activity', (await first('/admin/activity?limit=1')).next_cursor],
    ['state', state],
    ['invitation', invitation],
  ])
  const secrets = [
    own.key,
    other.key,
    retired.key,
    values.get('cookie'),
    values.get('cookie:admin'),
  ]
  return {
    values,
    secrets: [...secrets.map(String), ...[own, other, retired].map(({ key }) => hashSecret(key))],
  }
}

async function pay(service: TestService, till: Till, reference: string) {
  const id: string = (await charge(service, till, { reference })).json().order_id
  await act(service, id, payByCard)
  const { mp_order_id } = (await readOrder(service, till, id)).json()
  return { id, providerId: mp_order_id as string }
}

async function openClosing(service: TestService, till: Till): Promise<string> {
  const body = { caja_id: 'CAJA-1', business_day: '2026-01-05' }
  return (await call(service, { url: '/closings', token: till.key, body })).json().id
}

async function signIn(service: TestService, token: string): Promise<string> {
  const answer = await call(service, { url: '/session', body: { token } })
  return String(answer.headers['set-cookie']).split(';', 1)[0] ?? ''
}

function flowFiles(target: string): Record<string, string | object> {
  const refused = {
    name: 'web',
    type: 'http',
    request: {
      method: 'PUT',
      url: `${target}/refuse/{pk}`,
      headers: { authorization: 'Bearer $' + '{env:TARGET_SECRET}' },
    },
    retry: { attempts: 1 },
  }
  return {
    'articles.flow.yaml': jsonFlow('articles', target, {
      alerts: { onJobFailed: [{ type: 'webhook', url: `${target}/hook` }] },
    }),
    'articles.json': [
      { id: 'A-1', name: 'Yerba' },
      { id: 'A-2', name: '🧉' },
      { id: 'B/1|x', name: 'ñ' },
    ],
    'refused.flow.yaml': jsonFlow('refused', target, { destinations: [refused] }),
    'refused.json': [{ id: 'A-1', name: 'Yerba' }],
    'broken.flow.yaml': jsonFlow('broken', target),
    'broken.json': 'not json',
    'patient.flow.yaml': jsonFlow('patient', `${target}/later`),
    'patient.json': Array.from({ length: 50 }, (_, index) => ({ id: `P-${index}` })),
    'wrong.flow.yaml': 'version: 1\nname: wrong\n',
  }
}

/** A target whose refusals contain the request with all headers. */
async function startEcho(): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const refuses = request.url?.startsWith('/refuse') ?? false
      const status = refuses ? 400 : request.url?.startsWith('/later') ? 503 : 200
      response.writeHead(status).end(JSON.stringify({ error: request.headers }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function listen({ app }: Pick<TestService, 'app'>): Promise<string> {
  return app.listen({ host: '127.0.0.1', port: 0 })
}
