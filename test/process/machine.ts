import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import { commandsBelow } from '../support/document-blocks.ts'
import { writeNginxConf } from './proxies.ts'
import { freePort } from './real-process.ts'
import { outputOf, serviceUser, startSystemd } from './systemd.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Why the pages of an administrator cannot be played here. */
export const whyNoMachine: string | undefined = missing()

function missing(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root can start the service as another user'
  if (programAt('setpriv') === '') return 'setpriv is not installed'
  const places = [join(root, 'package.json'), join(root, 'node_modules/pg/package.json')]
  const isReadable = [...places, process.execPath].every((place) => mayRead(place))
  return isReadable ? undefined : 'the user of the service cannot read this checkout or its Node'
}

function mayRead(place: string): boolean {
  const user = [`--reuid=${serviceUser}`, `--regid=${serviceUser}`, '--clear-groups']
  return spawnSync('setpriv', [...user, 'test', '-r', place]).status === 0
}

/**
 * A clean Debian machine in a folder, for the commands of the administrator's pages: /opt, /etc, /var and /backups are folders in it,
 * and the ports are free ones. What needs the network or systemd has a stand-in. The service runs as a user without rights.
 */
export type Machine = {
  /** The place of a path of the pages. */
  path(path: string): string
  /** The port in the place of one of the pages: 3000, 3010, 8080, 8090. */
  port(port: number): number
  /** Runs commands of a page as root; answers what they printed. Throws when one fails. */
  asRoot(commands: string): Promise<string>
  /** The same in the shell of the service that the page opens. */
  asService(commands: string): Promise<string>
  /** The settings of the service. */
  settings(): NodeJS.Dict<string>
  remove(): Promise<void>
}

/** A PostgreSQL server, and the name of the role and the database that are `tillbridge` on the pages. */
type Postgres = { server: string; name: string }

const folders = ['bin', 'opt', 'etc/systemd/system', 'etc/nginx/conf.d', 'etc/caddy', 'var/lib']
const portsOfPages = ['3000', '3010', '8080', '8090']
const [shellOfService = ''] = commandsBelow(
  root,
  'docs/how-to/install.md',
  '### A shell of the service',
)

export async function openMachine(postgres: Postgres | undefined): Promise<Machine> {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-machine-'))
  chmodSync(folder, 0o755)
  for (const name of folders) mkdirSync(join(folder, name), { recursive: true })
  const ports = new Map<string, number>()
  for (const name of portsOfPages) ports.set(name, await freePort())
  const inFolder = (text: string) =>
    text.replaceAll(/(?<![\w./-])\/(?:opt|etc|var|backups)\b/g, (path) => folder + path)
  const adapt = (text: string) =>
    inFolder(postgres ? onServer(text, postgres) : text)
      .replaceAll(/(?<=[:=])(?:3000|3010|8080|8090)\b/g, (port) => String(ports.get(port)))
      .replaceAll('-o tillbridge -g tillbridge', `-o ${serviceUser} -g ${serviceUser}`)

  const logs = join(folder, 'var/log/nginx')
  const log = `log_format status '$status $request'; access_log ${logs}/access.log status;`
  const conf = await writeNginxConf(logs, `${log} include ${folder}/etc/nginx/conf.d/*;`)
  const nginx = ['-p', logs, '-c', conf]
  const systemd = await startSystemd(folder, { inFolder, nginx })
  for (const [program, script] of Object.entries({
    ...{ 'apt-get': 'exit', useradd: 'exit', journalctl: 'exit' },
    systemctl: `exec curl -sS --fail-with-body --unix-socket ${systemd.socket} --data-binary "$*" http://systemd/`,
    nginx: `exec ${programAt('nginx')} ${nginx.join(' ')} "$@"`,
    ...{ npm: npmScript, git: gitScript },
    runuser: postgres ? runuserScript(postgres) : 'exit 1',
  })) {
    writeFileSync(join(folder, 'bin', program), `#!/bin/sh -e\n${script}\n`, { mode: 0o755 })
  }
  const bash = (commands: string) => ['bash', '-e', '-o', 'pipefail', '-c', adapt(commands)]

  return {
    path: inFolder,
    port: (port) => Number(ports.get(String(port))),
    settings: () => parseEnv(readFileSync(inFolder('/etc/tillbridge/tillbridge.env'), 'utf8')),
    async asRoot(commands) {
      const [program = '', ...words] = bash(commands)
      const env = { PATH: `${folder}/bin:${process.env.PATH}`, HOME: folder }
      return await outputOf(spawn(program, words, { cwd: folder, env }), commands)
    },
    async asService(commands) {
      const shell = adapt(shellOfService)
      const [, file = ''] = /-p EnvironmentFile=(\S+)/.exec(shell) ?? []
      const [, cwd = ''] = /-p WorkingDirectory=(\S+)/.exec(shell) ?? []
      const given = [...shell.matchAll(/ -E (\S+)/g)].map(([, pair]) => pair)
      const env = { ...parseEnv(readFileSync(file, 'utf8')), ...parseEnv(given.join('\n')) }
      // Where Debian has none.
      env.PATH += `:${dirname(programAt('npm'))}`
      const child = systemd.spawnAsService(bash(commands), { env, cwd, umask: '022' })
      return await outputOf(child, commands)
    },
    async remove() {
      await systemd.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The commands with another role and database. The role cannot be the user of the system there, so its password is in the address. */
function onServer(commands: string, { server, name }: Postgres): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  url.username = name
  return commands
    .replaceAll('postgres:///tillbridge?host=/run/postgresql', url.href)
    .replaceAll(/(?<=^ *runuser .*)\btillbridge/gm, name)
}

/** What the user `postgres` does; a role has the password of the server's address, if any. */
function runuserScript({ server }: Postgres): string {
  const password = decodeURIComponent(new URL(server).password) || 'canary-unused'
  return `shift 3
case "$1" in
createuser) exec psql -qc "create role $2 login password '${password}'" '${server}' ;;
createdb) exec "$@" --maintenance-db='${server}' ;;
psql) exec "$@" '${server}' ;;
esac
exit 1`
}

function programAt(name: string): string {
  return spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim()
}

/** Without the network: the packages and the Node of this checkout. */
const npmScript = `case "$1" in
ci) exec ln -sfn "${root}node_modules" node_modules ;;
install) mkdir -p "$4/bin"; exec ln -sfn "${process.execPath}" "$4/bin/node" ;;
esac
exit 1`

/** Clones this checkout, with what was changed since its last commit. */
const gitScript = `case "$1" in
clone)
  ${programAt('git')} clone --quiet --shared "${root}" "$3"
  cd "${root}"
  ${programAt('git')} ls-files -z --cached --others --exclude-standard |
    tar --create --null --files-from=- --ignore-failed-read | tar --extract --directory="$3"
  exit ;;
pull) exit ;;
esac
exec ${programAt('git')} "$@"`
