import { expect, test } from 'vitest'
import { OutdatedError } from '../../src/flows/poll/plan.ts'
import { createLogger } from '../../src/http/logging.ts'
import { unexpected } from './log-judge.ts'

/** As the service's own log has it. */
function logged(fields: object): string {
  let written = ''
  const write = (text: string) => {
    written = text
  }
  createLogger('error', { write }).error(fields, 'request failed')
  return written
}
const line = (fields: object) =>
  JSON.stringify({ level: 'error', msg: 'request failed', ...fields })
const polled = line({ msg: 'poll failed' })
const asked = line({ code: 'PROVIDER_ERROR' })
const locked = line({ code: 'SERVICE_UNAVAILABLE', err: { cause: { code: '55P03' } } })
const crowded = line({ err: { type: 'DatabaseUnavailableError' } })
const outdated = logged({ code: 'SERVICE_UNAVAILABLE', err: new OutdatedError() })
const wrong = line({ code: 'INTERNAL_ERROR' })

test('a source that misbehaves and a definition that is read again are expected, all else is not', () => {
  const lines = [polled, asked, outdated, locked, crowded, wrong]
  expect(unexpected(lines, false)).toEqual([locked, crowded, wrong])
})

test('beside a process that stands still in a transaction others wait for its rows and its connections in vain', () => {
  expect(unexpected([locked, crowded, wrong], true)).toEqual([wrong])
})
