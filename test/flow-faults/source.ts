import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import type { TargetHooks } from './target.ts'
import { recordsOf, type TestFlow } from './test-flow.ts'

/** Answers a request for the list of a source, with the faults that the seed decides. */
export async function answerList(
  { isFaultFree, onStep }: Pick<TargetHooks, 'isFaultFree' | 'onStep'>,
  testFlow: TestFlow,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  testFlow.reads += 1
  const label = `read ${testFlow.reads}`
  onStep('the source receives a request')
  if (testFlow.scenario.polledBy === 'schedule' && testFlow.reads > 1) {
    testFlow.countEvent('a flow was polled by its schedule')
  }
  const since = Number(new URL(request.url ?? '', 'http://x').searchParams.get('since') ?? 0)
  if (!isFaultFree()) await wait(testFlow.chance.whole(`${label} pause`, 0, 15))
  const isWell = isFaultFree() || testFlow.chance.maybe(`${label} is well`, 0.85)
  const text = JSON.stringify(recordsOf(testFlow, since))
  if (isWell) {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write(text.slice(0, text.length / 2))
    onStep('half of the source is sent')
    response.end(text.slice(text.length / 2))
    return
  }
  switch (testFlow.chance.pick(`${label} fault`, ['refuses', 'breaks off', 'drops'])) {
    case 'refuses':
      response.writeHead(503).end()
      return
    case 'breaks off':
      response.writeHead(200, { 'content-length': text.length })
      response.write(text.slice(0, text.length / 2), () => request.socket.destroy())
      return
    default:
      request.socket.destroy()
  }
}

/** Answers a request for one item of a source. */
export function answerItem(testFlow: TestFlow, id: string, response: ServerResponse): void {
  const item = testFlow.sourceHistory.get(id)
  if (item) {
    testFlow.countEvent('an item was synced')
    response.writeHead(200, { 'content-type': 'application/json' })
  } else response.writeHead(404)
  response.end(item && JSON.stringify(item))
}
