import { type ChildProcess, fork } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { request } from 'undici'
import { freePort, spawnService } from '../../test/process/real-process.ts'
import type { Asked, State } from './receiver.ts'

export type Receiver = {
  url: string
  ask(asked: Exclude<Asked, 'items'>): Promise<State>
  items(): Promise<[string, string][]>
  stop(): void
}

/** A script of this folder, which answers numbered messages. `ready` is what it sends first. */
async function start<Ready extends object>(script: string, env: Record<string, string> = {}) {
  const child: ChildProcess = fork(new URL(script, import.meta.url), {
    env: { PATH: process.env.PATH, ...env },
    execArgv: [],
    serialization: 'advanced',
  })
  const waiting = new Map<number, (value: unknown) => void>()
  let asked = 0
  const ready = Promise.withResolvers<Ready>()
  child.on('message', (message: { id?: number; value?: unknown }) => {
    if (message.id === undefined) ready.resolve(message as Ready)
    else waiting.get(message.id)?.(message.value)
  })
  child.once('exit', (code) => ready.reject(new Error(`${script} ended: ${code}`)))
  const ask = <T>(message: (id: number) => unknown) =>
    new Promise<T>((resolve) => {
      asked += 1
      waiting.set(asked, resolve as (value: unknown) => void)
      child.send(message(asked) as object)
    })
  return { child, ready: ready.promise, ask }
}

export async function startReceiver(): Promise<Receiver> {
  const { child, ready, ask } = await start<{ url: string }>('receiver.ts')
  const { url } = await ready
  return {
    url,
    ask: (asked) => ask((id) => ({ id, asked })),
    items: () => ask((id) => ({ id, asked: 'items' })),
    stop: () => child.disconnect(),
  }
}

/** Where a contender reads, stores and sends. */
export type Place = { databaseUrl: string; sourceUrl: string; receiverUrl: string; folder: string }

export type Running = {
  pid: number
  /** Polls once, and resolves when the poll has written all changes. */
  poll(): Promise<void>
  kill(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>
}

/** `pollMs`: how often it polls by itself; not at all without it. */
export type Contender = {
  name: string
  start(place: Place, pollMs?: number): Promise<Running>
}

const flow = 'peers'
const dailyMs = 24 * 60 * 60_000

/** The flow's file, as short as one for this purpose is. */
function definition({ receiverUrl }: Place, pollMs: number | undefined): object {
  const url = `${receiverUrl}/items/{pk}`
  return {
    version: 1,
    name: flow,
    allowPrivateNetwork: true,
    pollInterval: pollMs ?? dailyMs,
    startPaused: pollMs === undefined,
    source: {
      type: 'sql',
      driver: 'postgres',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the flow file
      url: '${env:SOURCE}',
      query: 'select id, name, price, stock from erp.items',
    },
    item: { key: 'id', onDefinitionChange: 'send' },
    deletes: { mode: 'delete' },
    destinations: [
      {
        name: 'web',
        type: 'http',
        request: { method: 'PUT', url },
        delete: { method: 'DELETE', url },
        concurrency: 8,
        // As many as graphile-worker's jobs have. With five, one change in 100,000 fails for good where every tenth request does.
        retry: { attempts: 25 },
      },
    ],
  }
}

export const ours: Contender = {
  name: 'ours',
  async start(place, pollMs) {
    const { databaseUrl, sourceUrl, folder } = place
    await writeFile(join(folder, 'peers.flow.yaml'), JSON.stringify(definition(place, pollMs)))
    const syncPort = String(await freePort())
    const service = spawnService({
      PORT: String(await freePort()),
      SYNC_PORT: syncPort,
      DATABASE_URL: databaseUrl,
      FLOWS_DIR: folder,
      SOURCE: sourceUrl,
      // A process that waits beside another has a sandbox of its own.
      ...{ PROVIDER: 'sandbox', SANDBOX_PORT: '0', DATA_DIR: join(folder, `data-${syncPort}`) },
      ADMIN_TOKEN: 'canary-admin-token-of-the-benchmark-of-flows',
      ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 1).toString('base64')}`,
      LOG_LEVEL: 'warn',
      ...JSON.parse(process.env.BENCH_ENV ?? '{}'),
    })
    const { child, ended, stderr, stdout } = service
    let isKilled = false
    // Unhandled: it ends the benchmark, which would wait for ever.
    void ended.then((how) => {
      if (!isKilled) throw new Error(`the service ended by itself, ${how}: ${stderr()}${stdout()}`)
    })
    /** Tried again until the service has loaded its flows. */
    const post = async (path: string): Promise<void> => {
      const answer = await request(`http://127.0.0.1:${syncPort}${path}`, {
        method: 'POST',
        headersTimeout: 600_000,
        bodyTimeout: 600_000,
      }).catch(() => undefined)
      const text = await answer?.body.text()
      if (answer?.statusCode === 200) return
      const isEarly = answer === undefined || answer.statusCode === 503
      if (!isEarly || child.exitCode !== null || child.killed) {
        throw new Error(`${path}: ${answer?.statusCode} ${text} ${stderr()}${stdout()}`)
      }
      await wait(50)
      return post(path)
    }
    // It was paused from its first start on.
    if (pollMs) post(`/flow/${flow}/resume`).catch(() => undefined)
    return {
      pid: child.pid as number,
      async poll() {
        await post(`/sync/${flow}?force=true`)
      },
      async kill(signal) {
        isKilled = true
        child.kill(signal)
        await ended
      },
    }
  },
}

export const handWritten: Contender = {
  name: 'graphile-worker',
  async start({ databaseUrl, sourceUrl, receiverUrl }, pollMs) {
    const { child, ready, ask } = await start('hand-written.ts', {
      DATABASE_URL: databaseUrl,
      SOURCE_URL: sourceUrl,
      RECEIVER_URL: receiverUrl,
      ...(pollMs && { POLL_MS: String(pollMs) }),
    })
    ready.catch(() => undefined)
    const ended = new Promise((resolve) => child.once('exit', resolve))
    return {
      pid: child.pid as number,
      async poll() {
        await ready
        await ask((id) => id)
      },
      async kill(signal) {
        child.kill(signal)
        await ended
      },
    }
  },
}
