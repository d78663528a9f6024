import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'

// MS-TDS: packet types (2.2.3.1.1), tokens (2.2.7) and data types (2.2.5.4).
const packet = {
  batch: 0x01,
  rpc: 0x03,
  answer: 0x04,
  attention: 0x06,
  login: 0x10,
  prelogin: 0x12,
}
const headerBytes = 8
const longestPayload = 4_096 - headerBytes
const endOfMessage = 0x01
const done = { final: 0x00, error: 0x02, attention: 0x20 }

/** A column: its name, the bytes of its type, and a function that writes a value. */
export type TdsColumn = { name: string; type: Buffer; write: (value: never) => Buffer }

export type TdsAnswer = {
  columns?: TdsColumn[]
  rows?: unknown[][]
  /** Ends the response with this error. */
  error?: string
  errorNumber?: number
  /** Does not end the response, like a server that is still working. */
  staysOpen?: boolean
}

const collation = Buffer.from([0x09, 0x04, 0xd0, 0x00, 0x34])
const u8 = (value: number) => Buffer.from([value])
const u16 = (value: number) => little(value, 2)
const u32 = (value: number) => little(value, 4)
const little = (value: number, bytes: number) => {
  const buffer = Buffer.alloc(bytes)
  buffer.writeUIntLE(value, 0, bytes)
  return buffer
}
const u64 = (value: bigint) => {
  const buffer = Buffer.alloc(8)
  buffer.writeBigInt64LE(value)
  return buffer
}
const wide = (text: string) => Buffer.from(text, 'utf16le')
const shortText = (text: string) => Buffer.concat([u8(text.length), wide(text)])
const sized = (bytes: Buffer) => Buffer.concat([u8(bytes.length), bytes])
/** All these types encode null as length 0, except texts, which are never null. */
const orNull =
  <T>(write: (value: T) => Buffer) =>
  (value: T | null) =>
    value === null ? u8(0) : sized(write(value))

export const tdsTypes = {
  int: { type: Buffer.from([0x26, 4]), write: orNull(u32) },
  bigint: { type: Buffer.from([0x26, 8]), write: orNull(u64) },
  bit: { type: Buffer.from([0x68, 1]), write: orNull((value: boolean) => u8(value ? 1 : 0)) },
  real: {
    type: Buffer.from([0x6d, 4]),
    write: orNull((value: number) => Buffer.from(new Float32Array([value]).buffer)),
  },
  /** The value is in ten-thousandths. */
  money: {
    type: Buffer.from([0x6e, 8]),
    write: orNull((value: bigint) => {
      const bytes = u64(value)
      return Buffer.concat([bytes.subarray(4), bytes.subarray(0, 4)])
    }),
  },
  /** decimal(18,2); the value is in hundredths. */
  decimal: {
    type: Buffer.from([0x6a, 9, 18, 2]),
    write: orNull((value: bigint) =>
      Buffer.concat([u8(value < 0n ? 0 : 1), u64(value < 0n ? -value : value)]),
    ),
  },
  date: { type: Buffer.from([0x28]), write: orNull((value: string) => days(value)) },
  datetime2: {
    type: Buffer.from([0x2a, 7]),
    write: orNull((value: string) => {
      const at = new Date(value)
      const ticks = (at.getTime() % 86_400_000) * 10_000
      return Buffer.concat([little(ticks, 5), days(value.slice(0, 10))])
    }),
  },
  binary: {
    type: Buffer.concat([u8(0xa5), u16(100)]),
    write: (value: Buffer) => Buffer.concat([u16(value.length), value]),
  },
  /** nvarchar(max), in chunks as servers send it. */
  text: {
    type: Buffer.concat([u8(0xe7), u16(0xffff), collation]),
    write: (value: string) => {
      const bytes = wide(value)
      const pieces: Buffer[] = [u64(BigInt(bytes.length))]
      for (let at = 0; at < bytes.length; at += 50_000) {
        const piece = bytes.subarray(at, at + 50_000)
        pieces.push(u32(piece.length), piece)
      }
      return Buffer.concat([...pieces, u32(0)])
    },
  },
} as const

export function column(name: string, kind: keyof typeof tdsTypes): TdsColumn {
  return { name, ...(tdsTypes[kind] as Omit<TdsColumn, 'name'>) }
}

function days(date: string): Buffer {
  return little((Date.parse(date) - Date.parse('0001-01-01')) / 86_400_000, 3)
}

/**
 * The part of TDS 7.4 that a client needs to log in without TLS, query and cancel. `answer` gets the bytes of each request,
 * with texts in UTF-16. It returns undefined for the driver's own requests.
 */
export async function tdsServer(answer: (request: Buffer) => TdsAnswer | undefined) {
  const seen = { attentions: 0, open: 0, logins: 0 }
  const state = { refusesLogin: false, ignoresAttention: false }
  const openAnswers = new Set<Socket>()

  const onMessage = (socket: Socket, type: number, payload: Buffer) => {
    switch (type) {
      case packet.prelogin:
        return send(socket, preloginAnswer())
      case packet.login:
        seen.logins += 1
        if (state.refusesLogin) {
          return send(
            socket,
            Buffer.concat([errorToken('Login failed for user'), doneToken(done.error)]),
          )
        }
        return send(socket, Buffer.concat([loginAck(), doneToken(done.final)]))
      case packet.attention:
        seen.attentions += 1
        if (state.ignoresAttention) return undefined
        // The current response ends first, then the cancel is confirmed.
        if (openAnswers.delete(socket)) send(socket, doneToken(done.error))
        return send(socket, doneToken(done.attention))
      default: {
        const given = answer(payload) ?? {}
        if (given.staysOpen) openAnswers.add(socket)
        return sendAnswer(socket, given)
      }
    }
  }

  const server = createServer((socket) => {
    seen.open += 1
    socket.on('close', () => {
      seen.open -= 1
    })
    socket.on('error', () => undefined)
    let pending = Buffer.alloc(0)
    let message: Buffer[] = []
    socket.on('data', (data) => {
      pending = Buffer.concat([pending, data])
      while (pending.length >= headerBytes && pending.length >= pending.readUInt16BE(2)) {
        const length = pending.readUInt16BE(2)
        const [type = 0, status = 0] = pending
        message.push(pending.subarray(headerBytes, length))
        pending = pending.subarray(length)
        if ((status & endOfMessage) === 0) continue
        const payload = Buffer.concat(message)
        message = []
        onMessage(socket, type, payload)
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const url = `mssql://bob:Secr3t%21@127.0.0.1:${port}/x?encrypt=false`
  return Object.assign(state, { url, seen, close: () => server.close() })
}

/** Whether a request contains the text. */
export function contains(request: Buffer, text: string): boolean {
  return request.includes(wide(text))
}

function send(socket: Socket, payload: Buffer, ends = true): void {
  for (let at = 0; at === 0 || at < payload.length; at += longestPayload) {
    const piece = payload.subarray(at, at + longestPayload)
    const isLast = at + longestPayload >= payload.length
    const header = Buffer.from([packet.answer, isLast && ends ? endOfMessage : 0, 0, 0, 0, 0, 1, 0])
    header.writeUInt16BE(headerBytes + piece.length, 2)
    socket.write(Buffer.concat([header, piece]))
  }
}

function sendAnswer(
  socket: Socket,
  { columns, rows = [], error, errorNumber, staysOpen }: TdsAnswer,
): void {
  const tokens: Buffer[] = []
  if (columns) tokens.push(columnsToken(columns))
  for (const row of rows) {
    const cells = (columns ?? []).map(({ write }, index) => write(row[index] as never))
    tokens.push(u8(0xd1), ...cells)
  }
  if (error !== undefined) tokens.push(errorToken(error, errorNumber))
  if (!staysOpen) tokens.push(doneToken(error === undefined ? done.final : done.error))
  send(socket, Buffer.concat(tokens), !staysOpen)
}

/** Version 16 without encryption. */
function preloginAnswer(): Buffer {
  const head = Buffer.from([0x00, 0, 11, 0, 6, 0x01, 0, 17, 0, 1, 0xff])
  return Buffer.concat([head, Buffer.from([16, 0, 0, 0, 0, 0]), u8(0x02)])
}

function loginAck(): Buffer {
  const version = Buffer.from([0x74, 0, 0, 0x04])
  const body = Buffer.concat([u8(1), version, shortText('test'), Buffer.from([16, 0, 0, 0])])
  return Buffer.concat([u8(0xad), u16(body.length), body])
}

function columnsToken(columns: TdsColumn[]): Buffer {
  const each = columns.map(({ name, type }) =>
    Buffer.concat([u32(0), u16(1), type, shortText(name)]),
  )
  return Buffer.concat([u8(0x81), u16(columns.length), ...each])
}

function errorToken(message: string, number = 208): Buffer {
  const body = Buffer.concat([
    u32(number),
    u8(1),
    u8(16),
    u16(message.length),
    wide(message),
    shortText('server'),
    shortText(''),
    u32(1),
  ])
  return Buffer.concat([u8(0xaa), u16(body.length), body])
}

function doneToken(status: number): Buffer {
  return Buffer.concat([u8(0xfd), u16(status), u16(0xc1), u64(0n)])
}
