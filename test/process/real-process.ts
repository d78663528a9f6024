import { type ChildProcess, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseEnv } from 'node:util'
import packageJson from '../../package.json' with { type: 'json' }

/** The memory options of `npm start`, so that the measured process is the real one. */
const memoryOptions = packageJson.scripts.start
  .split(' ')
  .filter((word) => word.startsWith('--max-'))
const ownFolder = fileURLToPath(new URL('../../', import.meta.url))
/** Of each version: where its service begins. */
const main = 'src/app/start.js'
/** What a start compiles serves the next one: half of the time that loading the modules takes. */
export const compiled: string = fileURLToPath(
  new URL('../../node_modules/.cache/tillbridge-compiled', import.meta.url),
)

export type RealProcess = {
  url: string
  child: ChildProcess
  stdout: () => string
  stderr: () => string
  /** Exit code, or the signal's name. */
  ended: Promise<number | string>
}

const living = new Set<ChildProcess>()
// A service that a failed test left behind ends with the worker.
process.once('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})

/**
 * Starts the service with these settings and nothing of the surroundings but PATH: today's, or that of the checkout in another
 * folder.
 */
export function spawnService(env: Record<string, string>, folder = ownFolder): RealProcess {
  const options = folder === ownFolder ? memoryOptions : [...memoryOptions, ...loadFirst(folder)]
  const child = spawn(process.execPath, [...options, join(folder, main)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: compiled, ...env },
  })
  living.add(child)
  child.once('close', () => living.delete(child))
  const output = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk: Buffer) => {
    output.stdout += chunk.toString()
  })
  child.stderr.on('data', (chunk: Buffer) => {
    output.stderr += chunk.toString()
  })
  return {
    url: `http://127.0.0.1:${env.PORT}`,
    child,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    ended: new Promise((resolve) =>
      child.once('close', (code, signal) => resolve(signal ?? code ?? -1)),
    ),
  }
}

/**
 * Versions from before loaded their modules while they waited for the database, and nothing of theirs is compiled yet: on a busy
 * machine they would not get its answer in time.
 */
function loadFirst(folder: string): string[] {
  return ['--import', pathToFileURL(join(folder, 'src/app/run-service.ts')).href]
}

/** The same, once it answers. */
export async function startService(
  env: Record<string, string>,
  folder?: string,
): Promise<RealProcess> {
  const running = spawnService(env, folder)
  for (let tries = 0; tries < 1_200; tries += 1) {
    if (running.child.exitCode !== null) {
      throw new Error(`the service ended at its start: ${running.stderr()}${running.stdout()}`)
    }
    const answer = await fetch(`${running.url}/health`).catch(() => undefined)
    if (answer?.ok) return running
    await wait(25)
  }
  running.child.kill('SIGKILL')
  throw new Error(`the service did not answer: ${running.stderr()}${running.stdout()}`)
}

/** Runs a command of the service to its end; `said` is all that it wrote. */
export function runCommand(
  name: string,
  words: string[],
  env: Record<string, string>,
): Promise<{ code: number | null; said: string }> {
  const child = spawn(process.execPath, [join(ownFolder, `src/commands/${name}.ts`), ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: compiled, ...env },
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      said += bytes.toString()
    })
  }
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, said })))
}

// Below the ports that Linux gives to whoever asks for any: between the choice and its use, a busy suite takes hundreds of those.
const firstPort = 11_000
const portsOfProcess = 400
const processes = 50
let offered = Math.trunc(process.pid / processes)

/** A free port that stays free: processes that start one after the other choose from different ranges. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < portsOfProcess; tries += 1) {
    const own = firstPort + (process.pid % processes) * portsOfProcess
    const port = own + (offered++ % portsOfProcess)
    if (await isFree(port)) return port
  }
  throw new Error('no port')
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  const isListening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => resolve(true))
  })
  if (isListening) await new Promise((resolve) => server.close(resolve))
  return isListening
}

export async function adminTokenOf(dataDir: string): Promise<string> {
  const text = await readFile(join(dataDir, 'secrets', 'secrets.env'), 'utf8')
  return String(parseEnv(text).ADMIN_TOKEN)
}
