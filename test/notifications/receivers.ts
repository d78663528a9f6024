import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { alertsSchema } from '../../src/flows/definition/alert-schema.ts'

export type Call = { url: string; headers: IncomingHttpHeaders; body: string }

/** An HTTP server on loopback that keeps what it got; `answer` may be replaced at any time. */
export async function openHttpReceiver() {
  const calls: Call[] = []
  const receiver = {
    calls,
    answer: (response: ServerResponse, _call: Call): unknown => response.end(),
    url: '',
    bodies: () => calls.map(({ body }) => JSON.parse(body)),
    reset() {
      calls.length = 0
      receiver.answer = (response) => response.end()
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const call = { url: request.url ?? '', headers: request.headers, body }
    calls.push(call)
    receiver.answer(response, call)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return receiver
}

export type Mail = { from: string; to: string[]; head: string; text: string }

/** A mail server on loopback that keeps what it got, decoded. */
export async function openMailReceiver(options: SMTPServerOptions = {}) {
  const mails: Mail[] = []
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    authOptional: true,
    logger: false,
    onData(stream, session, done) {
      let raw = ''
      stream.setEncoding('utf8')
      stream.on('data', (chunk: string) => {
        raw += chunk
      })
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope
        const from = mailFrom === false ? '' : mailFrom.address
        mails.push({ from, to: rcptTo.map(({ address }) => address), ...decode(raw) })
        done()
      })
    },
    ...options,
  })
  // A client that hangs up in the middle is what some tests do.
  server.on('error', () => undefined)
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.server.address() as AddressInfo
  return {
    mails,
    url: `smtp://127.0.0.1:${port}`,
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  }
}

/** A server that takes connections, sends a byte of `drip` now and then, and never finishes anything. */
export async function openTarPit(drip: string) {
  const sockets = new Set<Socket>()
  const server = createTcpServer((socket) => {
    sockets.add(socket)
    const timer = setInterval(() => socket.write(drip), 20)
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearInterval(timer)
      sockets.delete(socket)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    open: () => sockets.size,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** The `alerts` of a flow file, with the given variables for its references. */
export function alertsOf(given: object, env: Record<string, string> = {}) {
  const readFile = () => {
    throw new Error('no files here')
  }
  const mail = { smtpUrl: 'smtp://mail.example', mailFrom: 'a@b.example' }
  return alertsSchema({ env, readFile, mail }).parse(given)
}

/** Of a mail with one text part. */
function decode(raw: string): { head: string; text: string } {
  const end = raw.indexOf('\r\n\r\n')
  const head = raw.slice(0, end)
  const body = raw.slice(end + 4)
  const encoding = /^content-transfer-encoding: *(\S+)/im.exec(head)?.[1]?.toLowerCase()
  if (encoding === 'base64') return { head, text: Buffer.from(body, 'base64').toString('utf8') }
  if (encoding !== 'quoted-printable') return { head, text: body }
  const bytes = body
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return { head, text: Buffer.from(bytes, 'latin1').toString('utf8') }
}
