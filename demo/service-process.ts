import { type ChildProcess, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { cp, mkdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseEnv } from 'node:util'

export type ServiceProcess = {
  url: string
  syncUrl: string
  sandboxUrl: string
  adminToken: string
  logFile: string
  /** Resolves when the process has ended. */
  ended: Promise<number | null>
  stop(): Promise<void>
}

const readyWithinMs = 60_000

/** The folder of a demo's data: one of its own, so that the shop's later database is not taken for a sandbox's. */
export function demoFolder(name: string): string {
  return process.env.DATA_DIR || join('data', name)
}

/** The folder of the files that a demo's flows read and write: none may be in the folder of the program or of its data. */
export function filesOfFlows(dataDir: string): string {
  const mark = hash('sha256', resolve(dataDir), 'hex').slice(0, 12)
  return join(tmpdir(), `tillbridge-demo-${mark}`)
}

const examples = fileURLToPath(new URL('../examples', import.meta.url))
const sampleFlows = join(examples, 'flows')

/**
 * Starts the real service as a process of its own, always on the embedded database and the built-in sandbox: whatever
 * the environment says, a demo must never charge a real card. `settings` are further settings of the service.
 */
export async function startService(
  shopUrl: string,
  { dataDir = demoFolder('demo'), flowsDir = sampleFlows, settings = {} as NodeJS.ProcessEnv } = {},
): Promise<ServiceProcess> {
  const port = await choosePort(Number(process.env.PORT || 3000))
  const sandboxPort = await choosePort(Number(process.env.SANDBOX_PORT || 3001))
  const syncPort = await choosePort(Number(process.env.SYNC_PORT || 8080))
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const demoFiles = filesOfFlows(dataDir)
  await mkdir(join(demoFiles, 'out'), { recursive: true, mode: 0o700 })
  await cp(join(examples, 'erp'), join(demoFiles, 'erp'), { recursive: true })
  const logFile = join(dataDir, 'demo.log')
  const log = createWriteStream(logFile, { flags: 'a', mode: 0o600 })
  const main = fileURLToPath(new URL('../src/app/start.js', import.meta.url))
  const child = spawn(process.execPath, [main], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...withoutSettings(process.env),
      PROVIDER: 'sandbox',
      DATA_DIR: dataDir,
      PORT: String(port),
      SANDBOX_PORT: String(sandboxPort),
      SYNC_PORT: String(syncPort),
      FLOWS_DIR: flowsDir,
      CONNECTIONS_FILE: join(examples, 'connections.yaml'),
      DEMO_FOLDER: demoFiles,
      // Nothing can flow into a shop that is not connected yet.
      FLOWS_START_PAUSED: 'true',
      // The definitions are those of the demo, and no token is needed.
      FLOWS_WORKBENCH: 'true',
      // The sandbox shows a payment at once, and a demo does not wait a minute for the end of the day.
      SEARCH_LAG_MS: '1000',
      DEMO_TARGET_URL: shopUrl,
      ...settings,
    },
  })
  child.stdout.pipe(log)
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => {
    complaint += chunk.toString()
  })
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const url = `http://127.0.0.1:${port}`
  await untilReady(url, child, () => complaint, logFile)
  return {
    url,
    syncUrl: `http://127.0.0.1:${syncPort}`,
    sandboxUrl: `http://127.0.0.1:${sandboxPort}`,
    adminToken: await readAdminToken(dataDir),
    logFile,
    ended,
    async stop() {
      if (child.exitCode === null) child.kill('SIGTERM')
      await ended
    },
  }
}

/** Without what would lead elsewhere: another database, the real provider, or a token we do not know. */
function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const own =
    /^(MP_|DATABASE_URL|ADMIN_TOKEN|ENCRYPTION_KEYS|PUBLIC_URL|HOST|SYNC_|OAUTH_|TRUST_PROXY|FLOWS_|CONNECTIONS_)/
  return Object.fromEntries(Object.entries(env).filter(([name]) => !own.test(name)))
}

/** The wanted port, or any free one when it is taken. */
async function choosePort(wanted: number): Promise<number> {
  for (const port of [wanted, 0]) {
    const server = createServer()
    const bound = await new Promise<number | undefined>((resolve) => {
      server.once('error', () => resolve(undefined))
      server.listen(port, '127.0.0.1', () => {
        const address = server.address()
        resolve(typeof address === 'object' && address !== null ? address.port : undefined)
      })
    })
    await new Promise((resolve) => server.close(resolve))
    if (bound !== undefined) return bound
  }
  throw new Error('no free port')
}

async function untilReady(
  url: string,
  child: ChildProcess,
  complaint: () => string,
  logFile: string,
): Promise<void> {
  const until = performance.now() + readyWithinMs
  while (performance.now() < until) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`The service ended at its start: ${complaint().trim() || `see ${logFile}`}`)
    }
    const answer = await fetch(`${url}/health`).catch(() => undefined)
    if (answer?.ok) return
    await wait(50)
  }
  child.kill('SIGKILL')
  throw new Error(`The service was not ready within ${readyWithinMs / 1000} s; see ${logFile}`)
}

async function readAdminToken(dataDir: string): Promise<string> {
  const file = join(dataDir, 'secrets', 'secrets.env')
  const token = parseEnv(await readFile(file, 'utf8')).ADMIN_TOKEN
  if (!token) throw new Error(`${pathToFileURL(file).href} holds no ADMIN_TOKEN`)
  return token
}
