import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'
import { freePort } from '../process/real-process.ts'

const program = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer'].find((path) => existsSync(path))

/** Why tests that need a pooler are left out; undefined when there is one. */
export const noPgbouncer: string | undefined =
  program === undefined ? 'needs pgbouncer (apt-get install pgbouncer)' : undefined

export type Pgbouncer = {
  /** The address of a database of the server, by way of the pooler. */
  urlOf(databaseUrl: string): string
  close(): Promise<void>
}

/** Starts a pgbouncer of its own in front of the server, for every database there. */
export async function startPgbouncer(
  serverUrl: string,
  mode: 'session' | 'transaction' | 'statement',
): Promise<Pgbouncer> {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-pooler-'))
  // It refuses to run as root, and its user must be able to read the settings.
  await chmod(folder, 0o755)
  const server = new URL(serverUrl)
  const port = await freePort()
  const ini = join(folder, 'pgbouncer.ini')
  const login = `user=${server.username || 'postgres'}${server.password && ` password=${server.password}`}`
  await writeFile(
    ini,
    [
      '[databases]',
      `* = host=${server.hostname} port=${server.port || 5432} ${login}`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = any',
      `pool_mode = ${mode}`,
      'max_client_conn = 500',
      'default_pool_size = 20',
      'log_connections = 0',
      'log_disconnections = 0',
      '',
    ].join('\n'),
  )
  const child = spawn(program ?? '', ['-q', ini], { stdio: 'ignore', ...unprivileged() })
  const url = (databaseUrl: string) => {
    const pooled = new URL(databaseUrl)
    pooled.hostname = '127.0.0.1'
    pooled.port = String(port)
    return pooled.href
  }
  await untilItAnswers(child, url(serverUrl))
  return {
    urlOf: url,
    close: async () => {
      const ended = new Promise((resolve) => child.once('close', resolve))
      child.kill('SIGKILL')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function unprivileged(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

async function untilItAnswers(child: ChildProcess, url: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const client = new Client({ connectionString: url })
    try {
      await client.connect()
      return
    } catch (error) {
      if (tries === 200 || child.exitCode !== null) throw error
      await wait(50)
    } finally {
      client.end().catch(() => {})
    }
  }
}
