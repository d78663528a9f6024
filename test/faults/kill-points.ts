import {
  createServer as createHttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { SentTransactions } from '../support/sent-statements.ts'

/** The moments of a money operation at which the process is killed, in their order. */
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

/** The next kill; `kill` runs once, at that step, and the proxies forward nothing until it ends. */
export type PlannedKill = { step: KillStep; operation: KillOperation; kill: () => Promise<void> }

/** Proxies between the service and its database and provider, which observe each step. The product has no test switch. */
export type KillPoints = {
  databaseUrl: string
  providerUrl: string
  /** Absent: the proxies forward everything. */
  planned: PlannedKill | undefined
  close(): Promise<void>
}

const activityMark = 'insert into activity_log'

/** Marks of a transaction of the operation: words of its SQL and its parameters. */
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
    const { planned } = points
    if (planned?.step !== step || !fits(planned.operation)) return false
    points.planned = undefined
    await planned.kill()
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
    /** Statements of the transaction whose commit the server has not answered yet. */
    let committing: string | undefined
    const answer = async (chunk: Buffer) => {
      const done = committing ?? ''
      committing = undefined
      // The server has committed, and the process gets no answer.
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
          // A dead process sends no COMMIT.
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
    planned: undefined,
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
