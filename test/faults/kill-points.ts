import {
  createServer as createHttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { SentTransactions } from '../support/sent-statements.ts'

/** The moments of a money operation at which the process is killed, in the order they come. */
export const killSteps = [
  'before the intent commits',
  'after the intent commits',
  'before the provider acts',
  'after the provider acted',
  'after the provider answered',
  'before the outcome commits',
  'after the outcome commits',
] as const
export type KillStep = (typeof killSteps)[number]

export const killOperations = ['charge', 'cancel', 'refund'] as const
export type KillOperation = (typeof killOperations)[number]

/** What is waited for; `fire` runs once, at that moment, and nothing passes until it is through. */
export type Trap = { step: KillStep; operation: KillOperation; fire: () => Promise<void> }

/** Stands between the service and its database and provider, and sees each step pass: the product knows nothing of it. */
export type KillPoints = {
  databaseUrl: string
  providerUrl: string
  /** Absent: everything passes. */
  trap: Trap | undefined
  close(): Promise<void>
}

const activityMark = 'insert into activity_log'

/** What tells a transaction of the operation from others: words of its SQL and its parameters. */
const intentMarks: Record<KillOperation, readonly string[]> = {
  charge: ['insert into orders'],
  cancel: ['insert into order_operations', ", 'cancel', "],
  refund: ['insert into order_operations', ", 'refund', "],
}
const outcomeMarks: Record<KillOperation, readonly string[]> = {
  charge: [activityMark, 'order.created'],
  cancel: [activityMark, 'order.canceled'],
  refund: [activityMark, 'order.refunded'],
}
const providerPath: Record<KillOperation, RegExp> = {
  charge: /^\/v1\/orders$/,
  cancel: /\/cancel$/,
  refund: /\/refund$/,
}

export async function openKillPoints(databaseUrl: string, sandboxUrl: string): Promise<KillPoints> {
  const sockets = new Set<Socket>()
  const pass = async (step: KillStep, fits: (operation: KillOperation) => boolean) => {
    const { trap } = points
    if (trap?.step !== step || !fits(trap.operation)) return false
    points.trap = undefined
    await trap.fire()
    return true
  }

  const target = new URL(databaseUrl)
  const relay = async (client: Socket) => {
    const server = connect(Number(target.port || 5432), target.hostname)
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy())
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        server.destroy()
      })
    }
    /** What the transaction held whose commit the server has not answered yet. */
    let committing: string | undefined
    const answer = async (chunk: Buffer) => {
      const done = committing ?? ''
      committing = undefined
      // The server has it, and the process will never know.
      const isKilled =
        (await pass('after the intent commits', (name) => isIntent(name, done))) ||
        (await pass('after the outcome commits', (name) => isOutcome(name, done)))
      if (!isKilled) client.write(chunk)
    }
    server.on('data', (chunk) => {
      if (committing === undefined) client.write(chunk)
      else void answer(chunk)
    })
    const transactions = new SentTransactions()
    try {
      for await (const chunk of client as AsyncIterable<Buffer>) {
        const open = transactions.read(chunk)
        if (open !== undefined) {
          const isKilled =
            (await pass('before the intent commits', (name) => isIntent(name, open))) ||
            (await pass('before the outcome commits', (name) => isOutcome(name, open)))
          // What a dead process had not sent yet never arrives.
          if (isKilled) break
          committing = open
        }
        server.write(chunk)
      }
    } catch {
      // The process was killed in the middle of a statement.
    }
    client.destroy()
  }

  const database = createServer((client) => void relay(client))

  const provider = createHttpServer((request, response) => {
    forward(request, response).catch(() => response.destroy())
  })
  const forward = async (request: IncomingMessage, response: ServerResponse) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const { method = 'GET', url: path = '/' } = request
    const fits = (operation: KillOperation) =>
      method === 'POST' && providerPath[operation].test(path)
    if (await pass('before the provider acts', fits)) return
    const headers: Record<string, string> = {}
    for (const name of ['authorization', 'content-type', 'x-idempotency-key']) {
      const value = request.headers[name]
      if (typeof value === 'string') headers[name] = value
    }
    const answer = await fetch(sandboxUrl + path, {
      method,
      headers,
      redirect: 'manual',
      ...(parts.length > 0 && { body: Buffer.concat(parts) }),
    })
    const text = await answer.text()
    await pass('after the provider acted', fits)
    response.writeHead(answer.status, { 'content-type': 'application/json' })
    await new Promise<void>((resolve) => response.end(text, resolve))
    // Long enough to be read and to begin the next transaction, too short to end it.
    await wait(1)
    await pass('after the provider answered', fits)
  }

  const listen = (server: { listen: typeof database.listen; address(): unknown }) =>
    new Promise<number>((resolve) => {
      server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
    })
  const through = new URL(databaseUrl)
  through.hostname = '127.0.0.1'
  through.port = String(await listen(database))
  const points: KillPoints = {
    databaseUrl: through.href,
    providerUrl: `http://127.0.0.1:${await listen(provider)}`,
    trap: undefined,
    async close() {
      for (const socket of sockets) socket.destroy()
      provider.closeAllConnections()
      await new Promise((resolve) => database.close(resolve))
      await new Promise((resolve) => provider.close(resolve))
    },
  }
  return points
}

function isIntent(operation: KillOperation, transaction: string): boolean {
  return (
    intentMarks[operation].every((mark) => transaction.includes(mark)) &&
    !transaction.includes(activityMark)
  )
}

function isOutcome(operation: KillOperation, transaction: string): boolean {
  return outcomeMarks[operation].every((mark) => transaction.includes(mark))
}
