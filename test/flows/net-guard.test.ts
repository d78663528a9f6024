import { createServer, type Server } from 'node:http'
import { type AddressInfo, isIP, type LookupFunction } from 'node:net'
import { Agent } from 'undici'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { AddressPolicy } from '../../src/outbound/address-class.ts'
import {
  createGuardedAgent,
  RefusedAddressError,
  refusalOfHost,
} from '../../src/outbound/guarded-agent.ts'
import {
  guardedRequest,
  parseHttpUrl,
  type RequestFailure,
} from '../../src/outbound/guarded-request.ts'

/** What a request checks before the connection. */
function checkUrl(url: string, policy: AddressPolicy): URL {
  const parsed = parseHttpUrl(url)
  const refusal = refusalOfHost(parsed.hostname, policy)
  if (refusal) throw refusal
  return parsed
}

// Notations of loopback, private, reserved, link-local and metadata addresses, and names for them.
const privateHosts = [
  '127.0.0.1',
  '127.1',
  '127.255.255.254',
  '2130706433',
  '0x7f000001',
  '0x7f.1',
  '017700000001',
  '0177.0.0.1',
  '127.0.0.1.',
  '①②⑦.0.0.1',
  '１２７.0.0.1',
  '%31%32%37.0.0.1',
  '0.0.0.0',
  '0',
  '[::1]',
  '[::]',
  '[0:0:0:0:0:0:0:1]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::127.0.0.1]',
  '[::ffff:0:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[2002:7f00:1::]',
  '10.1.2.3',
  '172.16.0.1',
  '192.168.1.1',
  '100.64.0.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
  '198.18.0.1',
  '[fc00::1]',
  '[fd12:3456::1]',
  '[ff02::1]',
]
const neverHosts = [
  '169.254.169.254',
  '2852039166',
  '0xa9fea9fe',
  '169.254.0.1',
  '[fe80::1]',
  '[::ffff:169.254.169.254]',
  '[64:ff9b::a9fe:a9fe]',
  '[2002:a9fe:a9fe::1]',
  '[fd00:ec2::254]',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  'metadata.google.internal',
  'METADATA.google.internal.',
]
const hosts = [...privateHosts, ...neverHosts]
const closed = { allowPrivateNetwork: false }
const open = { allowPrivateNetwork: true }

let canary: Server
let canaryPort: number
let connections = 0
let redirecting: Server
let redirectTo = ''

beforeAll(async () => {
  canary = createServer((_request, response) => response.end('reached'))
  canary.on('connection', () => {
    connections += 1
  })
  // All addresses of this machine, so that any notation of a local address is noticed.
  await new Promise<void>((resolve) => canary.listen(0, '::', resolve))
  canaryPort = (canary.address() as AddressInfo).port
  redirecting = createServer((_request, response) => {
    response.writeHead(302, { location: redirectTo }).end()
  })
  await new Promise<void>((resolve) => redirecting.listen(0, '127.0.0.1', resolve))
})
afterAll(() => {
  canary.closeAllConnections()
  canary.close()
  redirecting.closeAllConnections()
  redirecting.close()
})
beforeEach(() => {
  connections = 0
})

/** A resolver with the same answer for every name. */
function resolvesTo(...addresses: string[]): LookupFunction {
  return (_hostname, options, callback) => {
    const answer = addresses.map((address) => ({ address, family: isIP(address) }))
    const first = answer[0]
    if (options.all) callback(null, answer)
    else callback(null, first?.address ?? '', first?.family)
  }
}

async function outcome(agent: Agent, url: string): Promise<string> {
  const options = { redirects: 'same-origin', timeoutMs: 5_000 } as const
  try {
    const answer = await guardedRequest({ agent, method: 'GET', url, ...options })
    return String(answer.status)
  } catch (error) {
    return (error as RequestFailure).kind
  } finally {
    await agent.destroy()
  }
}

test('without the guard the canary is reached, so the other tests can fail', async () => {
  expect(await outcome(new Agent(), `http://0x7f.1:${canaryPort}/`)).toBe('200')
  expect(await outcome(new Agent(), `http://[::ffff:127.0.0.1]:${canaryPort}/`)).toBe('200')
  expect(connections).toBe(2)
})

test.each(hosts)('%s is not dialled as a literal address', async (host) => {
  const agent = createGuardedAgent(closed)
  expect(await outcome(agent, `http://${host}:${canaryPort}/`)).toBe('refused_address')
  expect(connections).toBe(0)
})

test.each(neverHosts)('%s is not dialled even with allowPrivateNetwork', async (host) => {
  expect(await outcome(createGuardedAgent(open), `http://${host}:${canaryPort}/`)).toBe(
    'refused_address',
  )
  expect(() => checkUrl(`http://${host}/`, open)).toThrow(RefusedAddressError)
})

const literals = hosts
  .filter((host) => !/metadata/i.test(host))
  .map((host) => new URL(`http://${host}/`).hostname.replace(/^\[(.*)\]$/, '$1'))

test.each([...new Set(literals)])('a name that resolves to %s is not dialled', async (address) => {
  const lookup = resolvesTo(address)
  const agent = createGuardedAgent({ ...closed, lookup })
  expect(await outcome(agent, `http://erp.example.com:${canaryPort}/`)).toBe('refused_address')
  expect(connections).toBe(0)
})

test('one refused address among allowed ones refuses the name', async () => {
  const agent = createGuardedAgent({ ...closed, lookup: resolvesTo('93.184.216.34', '127.0.0.1') })
  expect(await outcome(agent, `http://erp.example.com:${canaryPort}/`)).toBe('refused_address')
  expect(connections).toBe(0)
})

test('a name that the operating system resolves to loopback is not dialled', async () => {
  const reach = (host: string) =>
    outcome(createGuardedAgent(closed), `http://${host}:${canaryPort}/`)
  expect(await reach('localhost')).toBe('refused_address')
  expect(await reach('LOCALHOST')).toBe('refused_address')
  // Some resolvers do not resolve the name with the dot.
  expect(['refused_address', 'network']).toContain(await reach('localhost.'))
  expect(connections).toBe(0)
})

test('T40: a second answer of the resolver is never asked for, so a rebinding name goes nowhere else', async () => {
  const answers = ['127.0.0.1', '169.254.169.254']
  let asked = 0
  const lookup: LookupFunction = (hostname, options, callback) => {
    const address = answers[asked] ?? '169.254.169.254'
    asked += 1
    resolvesTo(address)(hostname, options, callback)
  }
  const url = `http://erp.example.com:${canaryPort}/`
  expect(await outcome(createGuardedAgent({ ...open, lookup }), url)).toBe('200')
  expect(asked).toBe(1)
  expect(await outcome(createGuardedAgent({ ...open, lookup }), url)).toBe('refused_address')
})

test.each(hosts)('T40: a redirect to %s is not followed', async (host) => {
  // UTF-8 bytes, as a server would send them.
  redirectTo = Buffer.from(`http://${host}:${canaryPort}/`).toString('latin1')
  const { port } = redirecting.address() as AddressInfo
  // Allows private addresses, so that only the rule about redirects applies.
  expect(await outcome(createGuardedAgent(open), `http://127.0.0.1:${port}/`)).toBe('302')
  expect(connections).toBe(0)
})

test('allowPrivateNetwork reaches loopback', async () => {
  for (const host of ['127.0.0.1', 'localhost', '[::1]', '[::ffff:127.0.0.1]', '0.0.0.0']) {
    expect(await outcome(createGuardedAgent(open), `http://${host}:${canaryPort}/`)).toBe('200')
  }
})

test('public addresses are allowed, also as NAT64 and mapped ones', () => {
  for (const host of ['93.184.216.34', '[2606:2800:220:1::1]', '[64:ff9b::5db8:d822]']) {
    expect(checkUrl(`https://${host}/x`, closed).href).toContain('/x')
  }
  expect(checkUrl('https://[::ffff:93.184.216.34]/', closed).protocol).toBe('https:')
})

test('other schemes, and addresses with credentials in them, are refused', () => {
  const refused = ['file:///etc/passwd', 'ftp://a.example/', 'gopher://a.example/', 'x', '//a/b']
  for (const url of [...refused, 'https://user:pass@a.example/', 'https://user@a.example/']) {
    expect(() => checkUrl(url, open)).toThrow(RefusedAddressError)
  }
})

test('a refusal names the host and nothing else of the address', () => {
  expect(() => checkUrl('http://127.0.0.1/services/T0/SECRET?token=SECRET', closed)).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining('SECRET') }),
  )
})
