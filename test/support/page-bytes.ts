import type { CDPSession } from 'playwright-core'

/** The requests of a page by the browser's id: bytes as transferred, with headers. */
export type PageRequests = Map<string, { url: string; bytes: number; uncompressed: number }>

/** Counts from now on. `uncompressed` is the size of the content before compression. */
export async function countPageBytes(session: CDPSession): Promise<PageRequests> {
  const requests: PageRequests = new Map()
  await session.send('Network.enable')
  session.on('Network.requestWillBeSent', ({ requestId, request }) => {
    // The content is in the address, such as the icons of the browser itself.
    if (request.url.startsWith('data:')) return
    requests.set(requestId, { url: request.url, bytes: 0, uncompressed: 0 })
  })
  const add = (id: string, bytes: number, uncompressed: number) => {
    const one = requests.get(id)
    if (!one) return
    one.bytes += bytes
    one.uncompressed += uncompressed
  }
  session.on('Network.responseReceived', ({ requestId, response }) =>
    add(requestId, response.encodedDataLength, 0),
  )
  session.on('Network.dataReceived', ({ requestId, dataLength, encodedDataLength }) =>
    add(requestId, encodedDataLength, dataLength),
  )
  return requests
}

export function sumOfBytes(requests: PageRequests): number {
  return [...requests.values()].reduce((sum, { bytes }) => sum + bytes, 0)
}
