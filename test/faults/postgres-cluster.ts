import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../process/real-process.ts'

const run = promisify(execFile)

/** A PostgreSQL server that only this run uses, so that it may be restarted. */
export type Cluster = {
  /** Address of its `postgres` database. */
  url: string
  /** `fast` ends every session and shuts down cleanly; `immediate` is a crash, with recovery at the start. */
  restart(mode: 'fast' | 'immediate'): Promise<void>
  /** Stops it and removes its files. */
  remove(): Promise<void>
}

/** Where distributions put the server's programs when they are not on the PATH. */
const usualFolders = [18, 17, 16, 15].flatMap((version) => [
  `/usr/lib/postgresql/${version}/bin`,
  `/usr/pgsql-${version}/bin`,
])

const env = { PATH: [process.env.PATH, ...usualFolders].join(delimiter), LC_ALL: 'C' }

/** Whether this machine can make one. */
export function hasServerPrograms(): boolean {
  const canSwitch = process.getuid?.() !== 0 || spawnSync('id', ['postgres']).status === 0
  return canSwitch && spawnSync('initdb', ['--version'], { env }).status === 0
}

/**
 * Makes and starts a server in a temporary folder, with these parameters (`name=value`). Root may not run one, so root runs it as the account `postgres`.
 * Rejects with the reason when there is no initdb or no such account.
 */
export async function openCluster(...parameters: string[]): Promise<Cluster> {
  const account = serverAccount()
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-postgres-'))
  if (account) await chown(folder, account.uid, account.gid)
  const as = { env, cwd: folder, ...account }
  const data = join(folder, 'data')
  const port = await freePort()
  const control = (...words: string[]) =>
    run('pg_ctl', ['--pgdata', data, '--wait', '--silent', ...words], as)
  const own = ['listen_addresses=127.0.0.1', `unix_socket_directories=${folder}`, ...parameters]
  const settings = `-p ${port} ${own.map((parameter) => `-c ${parameter}`).join(' ')}`
  try {
    const words = ['--username', 'tester', '--auth', 'trust', '--encoding', 'UTF8']
    await run('initdb', ['--pgdata', data, ...words], as)
    await control('--log', join(folder, 'log'), '--options', settings, 'start')
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
  return {
    url: `postgres://tester@127.0.0.1:${port}/postgres`,
    async restart(mode) {
      // A restart uses the options of the start.
      await control('--log', join(folder, 'log'), '--mode', mode, 'restart')
    },
    async remove() {
      await control('--mode', 'immediate', 'stop')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function serverAccount(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (option: string) =>
    Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}
