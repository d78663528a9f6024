import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { type Lane, recordsOf } from './lane.ts'
import type { Around } from './target.ts'

/** The list of a source is asked for, and comes as well or badly as the seed says. */
export async function giveList(
  { isCalm, onStep }: Pick<Around, 'isCalm' | 'onStep'>,
  lane: Lane,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  lane.reads += 1
  const label = `read ${lane.reads}`
  onStep('the source is asked')
  if (lane.play.polledBy === 'schedule' && lane.reads > 1) {
    lane.note('a flow was polled by its schedule')
  }
  const since = Number(new URL(request.url ?? '', 'http://x').searchParams.get('since') ?? 0)
  if (!isCalm()) await wait(lane.chance.whole(`${label} pause`, 0, 15))
  const isWell = isCalm() || lane.chance.maybe(`${label} is well`, 0.85)
  const text = JSON.stringify(recordsOf(lane, since))
  if (isWell) {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write(text.slice(0, text.length / 2))
    onStep('half of the source is read')
    response.end(text.slice(text.length / 2))
    return
  }
  switch (lane.chance.pick(`${label} fault`, ['refuses', 'breaks off', 'drops'])) {
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

/** One item of a source is asked for. */
export function giveItem(lane: Lane, id: string, response: ServerResponse): void {
  const item = lane.truth.get(id)
  if (item) {
    lane.note('an item was synced')
    response.writeHead(200, { 'content-type': 'application/json' })
  } else response.writeHead(404)
  response.end(item && JSON.stringify(item))
}
