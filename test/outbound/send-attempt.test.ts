import { setTimeout as wait } from 'node:timers/promises'
import { Agent } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { type AttemptInput, attemptOnce } from '../../src/outbound/send-attempt.ts'
import { answer, hang, startServer } from './raw-server.ts'

/** One connection, so that a second request waits for the first. */
function oneConnection(): Agent {
  const agent = new Agent({ connections: 1, pipelining: 1 })
  onTestFinished(() => agent.destroy())
  return agent
}

const requestTo = (url: string, signal?: AbortSignal): AttemptInput => ({
  ...{ method: 'PUT', url, headers: {}, body: '{}', maxBytes: 1_000, signal },
})

test('an attempt that was given up while it waited for a connection is not sent later', async () => {
  let finish = () => {}
  await using server = await startServer(
    (response) => {
      finish = () => response.end()
    },
    answer(200, {}),
  )
  const agent = oneConnection()
  const first = attemptOnce(agent, requestTo(`${server.url}/first`))
  await expect.poll(() => server.seen.length).toBe(1)
  const end = new AbortController()
  const second = attemptOnce(agent, requestTo(`${server.url}/second`, end.signal))
  end.abort(new Error('the service stops'))
  expect(await second).toMatchObject({ ok: false, failure: 'aborted', sent: false })
  finish()
  expect(await first).toMatchObject({ ok: true, status: 200 })
  const third = await attemptOnce(agent, requestTo(`${server.url}/third`))
  expect(third).toMatchObject({ ok: true })
  expect(server.seen.map(({ url }) => url)).toEqual(['/first', '/third'])
})

test('without a time limit of its own an attempt ends with its signal', async () => {
  await using server = await startServer(hang)
  const end = new AbortController()
  const attempt = attemptOnce(oneConnection(), requestTo(server.url, end.signal))
  await expect.poll(() => server.seen.length).toBe(1)
  end.abort(new DOMException('late', 'TimeoutError'))
  expect(await attempt).toMatchObject({ ok: false, failure: 'aborted', sent: true })
})

test('what comes before the answer, as early hints, is not the answer', async () => {
  await using server = await startServer((response) => {
    response.writeEarlyHints({ link: '</style.css>; rel=preload' })
    void wait(5).then(() => response.writeHead(201).end('made'))
  })
  const got = await attemptOnce(oneConnection(), requestTo(server.url))
  expect(got).toMatchObject({ ok: true, status: 201, body: Buffer.from('made') })
})
