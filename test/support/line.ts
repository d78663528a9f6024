import type { CDPSession } from 'playwright-core'

/** What a page asked for, by the browser's id of the request: bytes as they came over the line, heads included. */
export type Asked = Map<string, { url: string; bytes: number; told: number }>

/** Counts from now on; `told` is what the content had before it was compressed. */
export async function watchLine(session: CDPSession): Promise<Asked> {
  const asked: Asked = new Map()
  await session.send('Network.enable')
  session.on('Network.requestWillBeSent', ({ requestId, request }) => {
    asked.set(requestId, { url: request.url, bytes: 0, told: 0 })
  })
  const add = (id: string, bytes: number, told: number) => {
    const one = asked.get(id)
    if (!one) return
    one.bytes += bytes
    one.told += told
  }
  session.on('Network.responseReceived', ({ requestId, response }) =>
    add(requestId, response.encodedDataLength, 0),
  )
  session.on('Network.dataReceived', ({ requestId, dataLength, encodedDataLength }) =>
    add(requestId, encodedDataLength, dataLength),
  )
  return asked
}

export function weightOf(asked: Asked): number {
  return [...asked.values()].reduce((sum, { bytes }) => sum + bytes, 0)
}
