import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import recorded from './consumer-requests.json' with { type: 'json' }

/**
 * Consumers whose language may not run here: their text has the requests that the others were recorded to send
 * (test/docs/event-consumer.test.ts), and commits what it has stored.
 */
const texts = [
  { file: 'event_consumer.prg', stores: 'INSERT INTO erp_events', skips: 'IF NOT SEEK(' },
  { file: 'event_consumer.ps1', stores: '{ Save-Event $happened }', skips: '::Exists($file)' },
].map((one) => ({ ...one, text: readFileSync(`docs/examples/${one.file}`, 'utf8') }))

test.each(texts)('$file says in its first lines that it was not run', ({ text }) => {
  expect(text.split('\n').slice(0, 5).join('\n')).toContain('NOT RUN')
})

test.each(texts)('$file sends the recorded requests', ({ text, file }) => {
  for (const { method, path, body } of recorded) {
    const [fixed = ''] = path.split('reader=')
    const isHere = (line: string) => ['"', "'", '$'].some((end) => line.includes(fixed + end))
    const line = text.split('\n').find((one) => one.includes(method) && isHere(one))
    expect(line, path).toBeDefined()
    for (const name of body) expect(line).toMatch(new RegExp(`\\b${name}\\b`))
  }
  expect(text).toContain('reader=')
  const request = file.endsWith('.prg') ? readFileSync('examples/till/till.prg', 'utf8') : text
  for (const name of ['x-api-token', 'retry-after']) expect(request).toContain(name)
  expect(request).toMatch(/TLS ?1\.?2/i)
  expect(request).toMatch(/utf-?8/i)
})

test.each(texts)('$file stores before it commits, and skips what it has', (consumer) => {
  const { text, stores, skips } = consumer
  const stored = text.indexOf(stores)
  expect(stored).toBeGreaterThan(0)
  expect(text.indexOf('/events/feed/consumers/erp?')).toBeGreaterThan(stored)
  expect(text).toContain(skips)
})
