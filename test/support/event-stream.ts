import type { HttpServer } from '../../src/http/create-server.ts'

export type ReceivedEvent = { event: string; data: unknown }

export type OpenStream = {
  response: Response
  /** The next event that comes; undefined at the end of the stream. */
  next(): Promise<ReceivedEvent | undefined>
  /** Everything from now to the end of the stream. */
  rest(): Promise<ReceivedEvent[]>
  /** All text that came so far. */
  text(): string
  disconnect(): void
}

/** Opens a stream of server-sent events over a real socket; the app begins to listen when it does not yet. */
export async function openStream(
  app: HttpServer,
  path: string,
  headers: Record<string, string> = {},
): Promise<OpenStream> {
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' })
  const address = app.server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  const aborted = new AbortController()
  const response = await fetch(`http://127.0.0.1:${address.port}${path}`, {
    headers,
    signal: aborted.signal,
  })
  let text = ''
  let unread = ''
  const events = (async function* () {
    if (!response.body) return
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      text += chunk
      unread += chunk
      const blocks = unread.split('\n\n')
      unread = blocks.pop() ?? ''
      for (const block of blocks) {
        const event = parse(block)
        if (event) yield event
      }
    }
  })()
  const next = async () => (await events.next()).value ?? undefined
  return {
    response,
    next,
    async rest() {
      const all: ReceivedEvent[] = []
      for (let event = await next(); event; event = await next()) all.push(event)
      return all
    },
    text: () => text,
    disconnect: () => aborted.abort(),
  }
}

function parse(block: string): ReceivedEvent | undefined {
  const fields = Object.fromEntries(
    block.split('\n').map((line) => {
      const at = line.indexOf(': ')
      return [line.slice(0, at), line.slice(at + 2)]
    }),
  )
  if (fields.event === undefined) return undefined
  return { event: fields.event, data: JSON.parse(fields.data ?? 'null') }
}
