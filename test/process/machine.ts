import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import { commandsBelow } from '../support/document-blocks.ts'
import { writeNginxConf } from './proxies.ts'
import { freePort } from './real-process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Any user without rights takes the place of the user `tillbridge`. */
const serviceUser = 65_534
const isRoot = process.getuid?.() === 0
const hasSetpriv = spawnSync('setpriv', ['--version']).status === 0

/** Why the pages of an administrator cannot be played here. */
export const whyNoMachine: string | undefined = isRoot
  ? hasSetpriv
    ? undefined
    : 'setpriv is not installed'
  : 'only root can start the service as another user'

/**
 * A clean Debian machine in a folder, for the commands of the administrator's pages: /opt, /etc, /var/lib and /backups are folders in
 * it, and the ports are free ones. What needs the network or systemd has a stand-in. The service runs as a user without rights.
 */
export type Machine = {
  /** The place of a path of the pages. */
  path(path: string): string
  /** The port that is one of the pages: 3000, 3010, 8080, 8090. */
  port(port: number): number
  /** Runs commands of a page as root; answers what they printed. Throws when one fails. */
  asRoot(commands: string): Promise<string>
  /** The same in the shell of the service that the page opens. */
  asService(commands: string): Promise<string>
  /** The environment of the file, as the service gets it. */
  settings(): NodeJS.Dict<string>
  remove(): Promise<void>
}

export type MachineOptions = {
  /** Replaced in the commands before anything else. */
  replace?: readonly (readonly [from: string, to: string])[]
  /** A PostgreSQL server, and the name of the role and the database that `tillbridge` is there. */
  postgres?: { server: string; name: string }
}

const [shellOfService = ''] = commandsBelow(
  root,
  'docs/how-to/install.md',
  '### A shell of the service',
)

type Unit = { child: ChildProcess; ended: Promise<unknown>; said: () => string }

export async function openMachine(options: MachineOptions = {}): Promise<Machine> {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-machine-'))
  chmodSync(folder, 0o755)
  for (const name of [
    'opt',
    'etc/systemd/system',
    'etc/nginx/conf.d',
    'var/lib',
    'bin',
    'var/log/nginx',
  ])
    mkdirSync(join(folder, name), { recursive: true })
  const ports = new Map<string, number>()
  for (const name of ['3000', '3010', '8080', '8090']) ports.set(name, await freePort())
  const inFolder = (text: string) =>
    text.replaceAll(
      /(?<![\w./-])\/(?:opt|etc|var\/lib|var\/log|backups)\b/g,
      (path) => folder + path,
    )
  const { server, name = '' } = options.postgres ?? {}
  const adapt = (text: string) => {
    let adapted = text
    for (const [from, to] of options.replace ?? []) adapted = adapted.replaceAll(from, () => to)
    if (server !== undefined) {
      adapted = adapted
        .replaceAll('postgres:///tillbridge?host=/run/postgresql', databaseUrl(server, name))
        .replaceAll(/(?<=^ *runuser .*)\btillbridge/gm, name)
    }
    return inFolder(adapted)
      .replaceAll(/(?<=[:=])(?:3000|3010|8080|8090)\b/g, (port) => String(ports.get(port)))
      .replaceAll('-o tillbridge -g tillbridge', `-o ${serviceUser} -g ${serviceUser}`)
  }
  const unitNamed = (unit: string) => {
    const [, instance = ''] = /^tillbridge@(\w+)$/.exec(unit) ?? []
    const file = join(folder, 'etc/systemd/system/tillbridge@.service')
    return inFolder(readFileSync(file, 'utf8')).replaceAll('%i', instance)
  }
  const home = join(folder, 'var/lib/tillbridge')

  /** A program with the rights and the environment that systemd gives to the service. */
  const spawnAsService = (
    command: readonly string[],
    { env, cwd, umask }: { env: NodeJS.Dict<string>; cwd: string; umask: string },
  ) => {
    const rights = [`--reuid=${serviceUser}`, `--regid=${serviceUser}`, '--clear-groups']
    const none = ['--no-new-privs', '--bounding-set=-all', '--inh-caps=-all']
    const shell = ['sh', '-c', `umask ${umask}; exec "$@"`, 'sh']
    return spawn('setpriv', [...rights, ...none, ...shell, ...command], {
      cwd,
      env: { USER: 'tillbridge', HOME: home, PATH: '/usr/bin:/bin', ...env },
    })
  }

  const units = new Map<string, Unit>()
  let nginx: ChildProcess | undefined
  const start = (unit: string) => {
    const values = (key: string) =>
      [...unitNamed(unit).matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(
        ([, value = '']) => value,
      )
    mkdirSync(home, { recursive: true, mode: 0o700 })
    chownSync(home, serviceUser, serviceUser)
    const own = values('Environment').flatMap((line) => line.split(' '))
    const files = values('EnvironmentFile').map((file) => parseEnv(readFileSync(file, 'utf8')))
    const child = spawnAsService((values('ExecStart')[0] ?? '').split(' '), {
      env: Object.assign({}, parseEnv(own.join('\n')), ...files),
      cwd: values('WorkingDirectory')[0] ?? '',
      umask: values('UMask')[0] ?? '',
    })
    units.set(unit, { child, ended: once(child, 'close'), said: collect(child) })
  }
  const stop = async (unit: string) => {
    const running = units.get(unit)
    units.delete(unit)
    running?.child.kill('SIGTERM')
    await running?.ended
    if (running && running.child.exitCode !== 0) {
      throw new Error(`${unit} ended with ${running.child.exitCode}: ${running.said()}`)
    }
  }
  const reloadNginx = async () => {
    if (nginx) return void nginx.kill('SIGHUP')
    nginx = spawn('nginx', nginxOptions, { stdio: ['ignore', 'ignore', 'inherit'] })
  }
  /** What `systemctl` does on a real machine. */
  const systemctl = async (words: readonly string[]) => {
    const [verb = '', ...rest] = words
    const unit = rest.at(-1) ?? ''
    const isNow = rest[0] === '--now'
    if (verb === 'reload' && unit === 'nginx') return reloadNginx()
    if (verb === 'start' || (verb === 'enable' && isNow)) return start(unit)
    if (verb === 'stop' || (verb === 'disable' && isNow)) return stop(unit)
    if (verb !== 'daemon-reload') throw new Error(`what is systemctl ${words.join(' ')}?`)
  }

  const socket = join(folder, 'systemd.sock')
  const manager = createServer((request, response) => {
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
  manager.listen(socket)
  await once(manager, 'listening')

  const nginxFolder = join(folder, 'var/log/nginx')
  const log = `log_format status '$status $upstream_addr $request'; access_log ${nginxFolder}/access.log status;`
  const conf = await writeNginxConf(nginxFolder, `${log} include ${folder}/etc/nginx/conf.d/*;`)
  const nginxOptions = ['-p', nginxFolder, '-c', conf]
  for (const [program, script] of Object.entries({
    ...Object.fromEntries(['apt-get', 'useradd', 'journalctl'].map((one) => [one, 'exit 0'])),
    systemctl: `exec curl -sS --fail-with-body --unix-socket ${socket} --data-binary "$*" http://systemd/`,
    nginx: `exec ${programAt('nginx')} ${nginxOptions.join(' ')} "$@"`,
    npm: npmScript,
    git: gitScript,
    runuser: server === undefined ? 'exit 1' : runuserScript(server),
  })) {
    writeFileSync(join(folder, 'bin', program), `#!/bin/sh -e\n${script}\n`, { mode: 0o755 })
  }

  const settingsFile = join(folder, 'etc/tillbridge/tillbridge.env')
  const settings = () => parseEnv(readFileSync(settingsFile, 'utf8'))
  return {
    path: inFolder,
    port: (port) => Number(ports.get(String(port))),
    settings,
    asRoot: (commands) =>
      run(
        spawn('bash', ['-e', '-o', 'pipefail', '-c', adapt(commands)], {
          cwd: folder,
          env: { PATH: `${folder}/bin:${process.env.PATH}`, HOME: folder },
        }),
        commands,
      ),
    asService: (commands) => {
      const opened = adapt(shellOfService).replaceAll('\\\n', '')
      const values = (option: string) =>
        [...opened.matchAll(new RegExp(` ${option}(\\S+)`, 'g'))].map(([, value = '']) => value)
      const file = values('-p EnvironmentFile=')[0] ?? ''
      const child = spawnAsService(['bash', '-e', '-o', 'pipefail', '-c', adapt(commands)], {
        env: {
          ...parseEnv(readFileSync(file, 'utf8')),
          ...parseEnv(
            values('-E ')
              .join('\n')
              .replace(/(?<=^PATH=.*)$/m, `:${dirname(programAt('npm'))}`),
          ),
        },
        cwd: values('-p WorkingDirectory=')[0] ?? '',
        umask: '022',
      })
      return run(child, commands)
    },
    async remove() {
      for (const { child, ended } of units.values()) {
        child.kill('SIGKILL')
        await ended
      }
      nginx?.kill('SIGTERM')
      if (nginx) await once(nginx, 'close')
      manager.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** `role` has the password of the server's address, if any, since it cannot be the user of the operating system there. */
function databaseUrl(server: string, role: string): string {
  const url = new URL(server)
  url.pathname = `/${role}`
  url.username = role
  return url.href
}

function runuserScript(server: string): string {
  const { password } = new URL(server)
  const role = `create role $2 login password '${decodeURIComponent(password) || 'canary-unused'}'`
  return `shift 3
case "$1" in
createuser) exec psql -qc "${role}" '${server}' ;;
createdb) exec "$@" --maintenance-db='${server}' ;;
psql) shift; exec psql "$@" '${server}' ;;
esac
exit 1`
}

function programAt(name: string): string {
  return spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim()
}

/** Without the network: the packages and the Node of this checkout. */
const npmScript = `case "$1" in
ci) exec ln -sfn ${root}node_modules node_modules ;;
install) mkdir -p "$4/bin"; exec ln -sfn ${process.execPath} "$4/bin/node" ;;
esac
exit 1`

/** Clones this checkout, with what was changed since its last commit. */
const gitScript = `case "$1" in
clone)
  ${programAt('git')} clone --quiet --shared ${root} "$3"
  cd ${root}
  ${programAt('git')} ls-files -z --cached --others --exclude-standard |
    tar --create --null --files-from=- --ignore-failed-read | tar --extract --directory="$3"
  exit ;;
pull) exit ;;
esac
exec ${programAt('git')} "$@"`

function collect(child: ChildProcess): () => string {
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      said += chunk.toString()
    })
  }
  return () => said
}

async function run(child: ChildProcess, commands: string): Promise<string> {
  const said = collect(child)
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${commands}\nended with ${code}: ${said()}`)
  return said()
}
