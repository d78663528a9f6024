import { expect, test } from 'vitest'
import { createKnownHosts } from '../../src/http/known-hosts.ts'

/** Host names under which people may sign in: only those that no other person can point at this service. */

const hosts = createKnownHosts({
  addresses: ['https://pay.example.com/caja', 'http://flows.example.com:8080', 'http://[::1]:3000'],
  names: ['tills.vpn.example'],
})

test.each([
  'pay.example.com',
  'PAY.Example.com:443',
  'pay.example.com.',
  'flows.example.com',
  'tills.vpn.example:8443',
  '127.0.0.1:3000',
  '192.168.0.10',
  '203.0.113.9:3000',
  '[::1]:3000',
  '[fd00::5]',
  'localhost:3000',
])('%s is known', (host) => {
  expect(hosts.isKnown(host)).toBe(true)
})

test.each([
  'evil.example',
  'evil.example:3000',
  'pay.example.com.evil.example',
  'xpay.example.com',
  'example.com',
  'servidor',
  'caja.lan:3000',
  'caja.localhost',
  '127.0.0.1.nip.example',
  'local.example',
  'evil.example:99999',
  'evil.example@pay.example.com',
  'pay.example.com/evil',
  'a b',
  '',
])('%j is not known', (host) => {
  expect(hosts.isKnown(host)).toBe(false)
})
