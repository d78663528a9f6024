import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { stopProxy } from './proxies.ts'

/** Any user without rights takes the place of the user `tillbridge`. */
export const serviceUser = 65_534

/** What systemd does for the administrator's pages: starts and stops `tillbridge@…` and the proxies of a machine in a folder. */
export type Systemd = {
  /** Takes the words of `systemctl` as the body of a request. */
  socket: string
  /** A program with the rights and the environment of the service. */
  spawnAsService(command: readonly string[], place: Place): ChildProcess
  stop(): Promise<void>
}

type Place = { env: NodeJS.Dict<string>; cwd: string; umask: string }

/** `inFolder` answers the place of the paths in a text; `nginx`: the options with which it runs. */
export async function startSystemd(
  folder: string,
  { inFolder, nginx }: { inFolder: (text: string) => string; nginx: readonly string[] },
): Promise<Systemd> {
  const home = join(folder, 'var/lib/tillbridge')
  const services = new Map<string, { child: ChildProcess; said: () => string }>()
  const proxies = new Map<string, ChildProcess>()

  const spawnAsService = (command: readonly string[], { env, cwd, umask }: Place) => {
    const user = [`--reuid=${serviceUser}`, `--regid=${serviceUser}`, '--clear-groups']
    const noRights = ['--no-new-privs', '--bounding-set=-all', '--inh-caps=-all']
    const shell = ['sh', '-c', `umask ${umask}; exec "$@"`, 'sh']
    return spawn('setpriv', [...user, ...noRights, ...shell, ...command], {
      cwd,
      env: { USER: 'tillbridge', HOME: home, PATH: '/usr/bin:/bin', ...env },
    })
  }

  const start = (unit: string) => {
    const [, instance = ''] = /^tillbridge@(\w+)$/.exec(unit) ?? []
    const file = join(folder, 'etc/systemd/system/tillbridge@.service')
    const text = inFolder(readFileSync(file, 'utf8')).replaceAll('%i', instance)
    const values = (key: string) =>
      [...text.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value = '']) => value)
    mkdirSync(home, { recursive: true, mode: 0o700 })
    chownSync(home, serviceUser, serviceUser)
    const own = values('Environment').flatMap((line) => line.split(' '))
    const files = values('EnvironmentFile').map((path) => parseEnv(readFileSync(path, 'utf8')))
    const child = spawnAsService((values('ExecStart')[0] ?? '').split(' '), {
      env: Object.assign({}, parseEnv(own.join('\n')), ...files),
      cwd: values('WorkingDirectory')[0] ?? '',
      umask: values('UMask')[0] ?? '',
    })
    services.set(unit, { child, said: collectOutput(child) })
  }

  const stop = async (unit: string) => {
    const service = services.get(unit)
    services.delete(unit)
    if (!service) return
    const { child, said } = service
    if (child.exitCode === null) {
      child.kill('SIGTERM')
      await once(child, 'close')
    }
    if (child.exitCode !== 0) throw new Error(`${unit} ended with ${child.exitCode}: ${said()}`)
  }

  const env = { PATH: process.env.PATH, HOME: folder }
  const startProxy = (name: string, options: readonly string[]) =>
    proxies.set(name, spawn(name, options, { stdio: 'ignore', env }))
  const reload = async (name: string) => {
    const running = proxies.get(name)
    const caddy = ['--config', join(folder, 'etc/caddy/Caddyfile')]
    if (!running) startProxy(name, name === 'nginx' ? nginx : ['run', ...caddy])
    else if (name === 'nginx') running.kill('SIGHUP')
    else await outputOf(spawn('caddy', ['reload', ...caddy], { env }), 'caddy reload')
  }

  const systemctl = async (words: readonly string[]) => {
    const [verb = '', ...rest] = words
    const unit = rest.at(-1) ?? ''
    const isNow = rest[0] === '--now'
    if (verb === 'is-active') {
      if (!services.has(unit)) throw new Error(`${unit} is not active`)
    } else if (verb === 'reload') await reload(unit)
    else if (verb === 'start' || (verb === 'enable' && isNow)) start(unit)
    else if (verb === 'stop' || (verb === 'disable' && isNow)) await stop(unit)
    else if (verb !== 'daemon-reload') throw new Error(`no part is made for ${words.join(' ')}`)
  }

  const socket = join(folder, 'systemd.sock')
  const listener = createServer((request, response) => {
    let words = ''
    request.on('data', (chunk: Buffer) => {
      words += chunk.toString()
    })
    request.on('end', () => {
      systemctl(words.split(' ')).then(
        () => response.end(),
        (error: unknown) => response.writeHead(500).end(`${error}\n`),
      )
    })
  })
  listener.listen(socket)
  await once(listener, 'listening')

  return {
    socket,
    spawnAsService,
    async stop() {
      for (const { child } of services.values()) {
        if (child.exitCode !== null) continue
        child.kill('SIGKILL')
        await once(child, 'close')
      }
      for (const proxy of proxies.values()) await stopProxy(proxy)
      listener.close()
    },
  }
}

function collectOutput(child: ChildProcess): () => string {
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      said += chunk.toString()
    })
  }
  return () => said
}

/** What a program printed. Throws with it when the program fails. */
export async function outputOf(child: ChildProcess, what: string): Promise<string> {
  const said = collectOutput(child)
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${what}\nended with ${code}: ${said()}`)
  return said()
}
