import { type ChildProcess, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import packageJson from '../../package.json' with { type: 'json' }

/** What `npm start` says of the memory: without it a process is measured that nobody runs. */
const memoryOptions = packageJson.scripts.start
  .split(' ')
  .filter((word) => word.startsWith('--max-'))
const main = fileURLToPath(new URL('../../src/start.ts', import.meta.url))
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

/** Starts `src/start.ts` with these settings and nothing of the surroundings but PATH. */
export function spawnService(env: Record<string, string>): RealProcess {
  const child = spawn(process.execPath, [...memoryOptions, main], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: compiled, ...env },
  })
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

/** The same, once it answers. */
export async function startService(env: Record<string, string>): Promise<RealProcess> {
  const running = spawnService(env)
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

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (typeof address !== 'object' || address === null) throw new Error('no port')
  return address.port
}

export async function adminTokenOf(dataDir: string): Promise<string> {
  const text = await readFile(join(dataDir, 'secrets', 'secrets.env'), 'utf8')
  return String(parseEnv(text).ADMIN_TOKEN)
}
