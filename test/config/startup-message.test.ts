import { expect, test } from 'vitest'
import { openStartupLog } from '../../src/app/startup-log.ts'
import { startupMessage } from '../../src/app/startup-message.ts'
import { createLogger } from '../../src/http/logging.ts'

const sandbox = {
  url: 'http://127.0.0.1:3000',
  syncUrl: 'http://127.0.0.1:8080',
  publicUrl: 'http://127.0.0.1:3000',
  mode: 'sandbox' as const,
  sandboxUrl: 'http://127.0.0.1:3001',
  database: 'embedded, in /srv/data',
  tokenFile: '/srv/data/secrets/secrets.env',
}

test('the block of a first start names addresses, mode, database and the file of the token', () => {
  expect(startupMessage(sandbox)).toBe(`
tillbridge is ready. Stop it with Ctrl+C.

  Dashboard            http://127.0.0.1:3000/dashboard
  Flows                http://127.0.0.1:8080/admin
  API                  http://127.0.0.1:3000/docs and http://127.0.0.1:8080/docs
  Guide                http://127.0.0.1:3000/guide
  Virtual terminals    http://127.0.0.1:3001
  Mode                 sandbox: no real money moves
  Database             embedded, in /srv/data
  Administrator token  /srv/data/secrets/secrets.env

`)
})

test('in production the block names the public address and no token', () => {
  const text = startupMessage({
    ...sandbox,
    publicUrl: 'https://pay.example.com',
    mode: 'mercadopago',
    sandboxUrl: undefined,
    database: 'PostgreSQL',
    tokenFile: undefined,
  })
  expect(text).toMatch(/Public address +https:\/\/pay\.example\.com\n/)
  expect(text).toMatch(/Mode +Mercado Pago: real cards\n/)
  expect(text).toMatch(/Administrator token +ADMIN_TOKEN of the settings\n/)
  expect(text).not.toContain('Virtual terminals')
})

test('at a terminal the log follows the block in its order, or appears at once when the start fails', () => {
  const shown: string[] = []
  const log = openStartupLog({ write: (text) => shown.push(text) })
  const logger = createLogger('info', log)
  logger.info('starting')
  logger.info('listening')
  expect(shown).toEqual([])
  shown.push('block')
  log.show()
  logger.info('ready')
  const messages = shown.map((text) => (text === 'block' ? text : JSON.parse(text).msg))
  expect(messages).toEqual(['block', 'starting', 'listening', 'ready'])

  const failed: string[] = []
  const later = openStartupLog({ write: (text) => failed.push(text) })
  later.write('refused')
  const ends = process.listeners('exit').at(-1)
  ends?.(1)
  expect(failed).toEqual(['refused'])
})
