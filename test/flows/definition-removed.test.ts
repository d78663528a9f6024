import { expect, test } from 'vitest'
import { sentenceOf } from '../../src/domain/flow-reasons.ts'
import { removedKeys } from '../../src/flows/definition/removed-keys.ts'
import { flowText, problemsOf } from './definition-support.ts'

/** A file with a removed key is refused with one sentence, which names the replacement. */
const examples: Record<string, Parameters<typeof flowText>[0]> = {
  'source.wakeOn': {
    source:
      'source: { type: sql, driver: postgres, url: "postgres://bob@erp.example.com/x", query: select 1, wakeOn: a }',
  },
  windows: { more: 'windows: [{ from: "07:00", to: "12:00" }]' },
  'source.csv.footer': {
    source:
      'source: { type: file, path: erp.csv, format: csv, csv: { footer: { mark: TOTAL, count: 2 } } }',
  },
  'source.fixed.footer': {
    source:
      'source: { type: file, path: a.txt, format: fixed, fixed: { columns: [{ name: codigo, start: 1, length: 8 }], footer: { mark: T } } }',
  },
  'source.unendedAfter': {
    source: 'source: { type: file, path: erp.csv, format: csv, unendedAfter: 5m }',
  },
  'source.driver: oracle': {
    source:
      'source: { type: sql, driver: oracle, url: "oracle://bob@erp.example.com:1521/X", query: select 1 }',
  },
  drift: { more: 'drift: { columns: ignore, changed: { maxPercent: 50 } }' },
  'alerts.onDegraded': { more: 'alerts:\n  onDegraded: { failedJobs: 100 }' },
}

const nameOf = ({ key, value }: (typeof removedKeys)[number]) =>
  value === undefined ? key : `${key}: ${value}`

test('each removed key has an example in this test', () => {
  expect(removedKeys.map(nameOf)).toEqual(Object.keys(examples))
})

test.each(removedKeys.map((one) => ({ ...one, title: nameOf(one) })))(
  '$title is refused with its replacement',
  ({ key, value, instead, title }) => {
    const place = key.replaceAll('[]', '[0]')
    const what = value ?? 'this key'
    expect(problemsOf(flowText(examples[title]))).toEqual([
      expect.stringContaining(
        `${place}: ${what} is no longer supported (${sentenceOf(instead, 'en')})`,
      ),
    ])
  },
)

test('the other problems of a file with a removed key are reported too', () => {
  const problems = problemsOf(flowText({ more: 'drift: {}\nqueue: { keepFailed: soon }' }))
  expect(problems).toHaveLength(2)
  expect(problems[1]).toContain('queue.keepFailed')
})
