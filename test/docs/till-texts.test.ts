import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import recorded from './till-requests.json' with { type: 'json' }

/**
 * Tills whose language does not run here: their text has the steps of the others, and what these were recorded to send
 * (test/docs/tills.test.ts). A text cannot show that it compiles; each file says in its first lines that it was not run.
 */
const folder = 'examples/till'
const files = readdirSync(folder).sort()
const textOf = (file: string) => readFileSync(`${folder}/${file}`, 'utf8')
/** `wait_for_end`, `WaitForEnd` and `Wait-For-End` are one name; Visual Basic has its own `Resume`. */
const plain = (text: string) => text.toLowerCase().replaceAll(/[-_]/g, '')
const steps = ['charge', 'wait_for_end', 'show_cashier', 'cancel', 'refund', 'resume', 'close_day']
const notRun = ['Till.bas', 'Till.pas', 'till.prg', 'till.ps1']

test('there is one till a language', () => {
  expect(files).toEqual([...notRun, 'Till.cs', 'till.py', 'till.ts'].sort())
})

test.each(files)('%s has the steps that all tills share', (file) => {
  const text = plain(textOf(file))
  for (const step of [...steps, 'send_until_answered']) expect(text).toContain(plain(step))
})

test.each(notRun)('%s says in its first lines that it was not run', (file) => {
  expect(textOf(file).split('\n').slice(0, 5).join('\n')).toContain('NOT RUN')
})

test.each(notRun)('%s names every path, header and field of the recorded requests', (file) => {
  const text = textOf(file)
  for (const { method, path, body, keyed } of recorded) {
    const [fixed = ''] = path.split('{')
    expect(text).toContain(fixed.replace(/\?.*/, ''))
    expect(text).toContain(method)
    for (const name of body) expect(text).toMatch(new RegExp(`\\b${name}\\b`))
    if (path.includes('?')) expect(text).toContain('?wait=30&version=')
    if (keyed) expect(text).toContain('idempotency-key')
  }
  for (const name of ['x-api-token', 'accept-language', 'retry-after']) expect(text).toContain(name)
})

test.each(notRun)(
  '%s stores the key before the charge is sent, and uses TLS 1.2 and UTF-8',
  (file) => {
    const text = textOf(file)
    // The last one is no declaration.
    const [charge = ''] =
      text.match(/^(?:public )?(?:function|procedure) (?:TTill\.|till_)?Charge\b/gim)?.slice(-1) ??
      []
    const body = text.slice(text.lastIndexOf(charge))
    const stored = body.search(
      /Keep[ (]+\$?Ticket,? ["']key["']|INSERT INTO till_sales \(ticket, key/i,
    )
    const sent = body.search(/\n *(?:till_)?send-?_?charge\b/i)
    expect(charge).not.toBe('')
    expect(stored).toBeGreaterThan(0)
    expect(sent).toBeGreaterThan(stored)
    expect(text).toMatch(/TLS ?1\.?2/i)
    expect(text).toMatch(/utf-?8/i)
  },
)

test.each(files)('%s decides by no text of a message', (file) => {
  expect(textOf(file)).not.toMatch(/(?:===?|=~|-match|-like|\$)\s*["'](?:Cobro|The |No )/)
})
