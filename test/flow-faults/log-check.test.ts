import { expect, test } from 'vitest'
import { OutdatedError } from '../../src/flows/poll/poll-plan.ts'
import { createLogger } from '../../src/http/logging.ts'
import { unexpected } from './log-check.ts'

/** The line that the service's logger writes. */
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
const failedPoll = line({ msg: 'poll failed' })
const failedRequest = line({ code: 'PROVIDER_ERROR' })
const locked = line({ code: 'SERVICE_UNAVAILABLE', err: { cause: { code: '55P03' } } })
const noConnection = line({ err: { type: 'DatabaseUnavailableError' } })
const outdated = logged({ code: 'SERVICE_UNAVAILABLE', err: new OutdatedError() })
const wrong = line({ code: 'INTERNAL_ERROR' })

test('errors of a faulty source and of an outdated definition are expected, other errors are not', () => {
  const lines = [failedPoll, failedRequest, outdated, locked, noConnection, wrong]
  expect(unexpected(lines, false)).toEqual([locked, noConnection, wrong])
})

test('errors of locks and of missing connections are expected while a process is suspended', () => {
  expect(unexpected([locked, noConnection, wrong], true)).toEqual([wrong])
})
