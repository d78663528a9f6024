import {
  createServer as createHttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'

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

const intentSql: Record<KillOperation, string> = {
  charge: 'insert into "orders"',
  cancel: 'insert into "order_operations"',
  refund: 'insert into "order_operations"',
}
const auditAction: Record<KillOperation, string> = {
  charge: 'order.created',
  cancel: 'order.canceled',
  refund: 'order.refunded',
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
    server.on('data', (chunk) => client.write(chunk))
    // What this connection's open transaction holds.
    let seen = ''
    try {
      for await (const chunk of client) {
        const text = (chunk as Buffer).toString('latin1')
        if (/\bbegin\b|\brollback\b/i.test(text)) seen = ''
        seen += text
        const isCommit = /\bcommit\b/i.test(text)
        const holds = (words: string) => seen.includes(words)
        const isIntent = (operation: KillOperation) =>
          isCommit && holds(intentSql[operation]) && !holds('insert into "activity_log"')
        const isOutcome = (operation: KillOperation) =>
          isCommit && holds('insert into "activity_log"') && holds(auditAction[operation])
        const isKilled =
          (await pass('before the intent commits', isIntent)) ||
          (await pass('before the outcome commits', isOutcome))
        // What a dead process had not sent yet never arrives.
        if (isKilled) break
        server.write(chunk as Buffer)
        if (!isCommit) continue
        const [intent, outcome] = [isIntent, isOutcome].map((is) => ({
          is: Object.fromEntries(killOperations.map((name) => [name, is(name)])),
        }))
        // The server has it; its answer may pass or not.
        await wait(1)
        await pass('after the intent commits', (operation) => intent?.is[operation] === true)
        await pass('after the outcome commits', (operation) => outcome?.is[operation] === true)
        seen = ''
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
    response.end(text)
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
