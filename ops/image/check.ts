import { execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import packageJson from '../../package.json' with { type: 'json' }
import { type CommandHelp, readOptions } from '../../src/commands/run-command.ts'

const help: CommandHelp = {
  usage: 'npm run check:image',
  about:
    'Builds the image by the Dockerfile, with buildah and without an engine, and runs it as a container would: as its user, on a read-only root, as process 1, without a network. Its base is Debian with the Node of package.json in place of the official image. It needs Linux, root, buildah, debootstrap, iproute2 and util-linux.',
  exitCodes: [
    [0, 'everything works, or this machine lacks a tool: SKIPPED is printed with the reason'],
    [1, 'something does not work; the message says what'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run check:image',
}
readOptions(help, {})

const root = fileURLToPath(new URL('../..', import.meta.url))
const say = (line: string) => void process.stdout.write(`${line}\n`)
const startedAt = performance.now()
const tools = ['buildah', 'debootstrap', 'unshare', 'nsenter', 'setpriv', 'ip']
/** The base is kept there, since Debian changes rarely and the build takes half of its time. */
const store = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'tillbridge-image')
const scratch = mkdtempSync(join(tmpdir(), 'tillbridge-image-'))

/** What the image says of its containers. */
type ImageConfig = {
  User: string
  WorkingDir: string
  Env: string[]
  Cmd: string[]
  Volumes: Record<string, object>
  Healthcheck: { Test: string[] }
}

function step(what: string): void {
  say(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${what}`)
}

function run(command: string, args: readonly string[]): string {
  return execFileSync(command, args, {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim()
}

function buildah(command: string, ...args: string[]): string {
  const places = ['--storage-driver', 'vfs', '--root', join(store, 'images')]
  return run('buildah', [...places, '--runroot', join(store, 'run'), command, ...args])
}

function whyNot(): string | undefined {
  if (process.platform !== 'linux') return 'it needs Linux'
  if (process.getuid?.() !== 0) return 'it needs root'
  const missing = tools.filter((tool) => spawnSync('sh', ['-c', `command -v ${tool}`]).status !== 0)
  if (missing.length > 0) return `there is no ${missing.join(', ')}`
  return spawnSync('unshare', ['--pid', '--mount', '--net', '--fork', 'true']).status === 0
    ? undefined
    : 'namespaces are not allowed here'
}

/** Debian as the official image has it, with this Node, its npm and its user. Answers whether it is there. */
function buildBase(name: string): boolean {
  const known = buildah('images', '--format', '{{.Name}}:{{.Tag}}').split('\n')
  if (known.includes(name)) return true
  const folder = join(scratch, 'base')
  const site = run('apt-get', ['indextargets', '--format', '$(SITE)']).split('\n')[0] ?? ''
  const made = spawnSync('debootstrap', ['--variant=minbase', 'bookworm', folder, site])
  if (made.status !== 0) return false
  step('debootstrap')
  const bin = join(folder, 'usr/local/bin')
  cpSync(join(root, 'node_modules/node/bin/node'), join(bin, 'node'))
  const npm = join('usr/local/lib/node_modules/npm')
  cpSync(join(run('npm', ['root', '--global']), 'npm'), join(folder, npm), { recursive: true })
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(bin, 'npm'))
  run('chroot', [folder, 'groupadd', '--gid', '1000', 'node'])
  run('chroot', [folder, 'useradd', '--uid', '1000', '--gid', 'node', '--create-home', 'node'])
  const container = buildah('from', 'scratch')
  buildah('add', '--quiet', container, folder, '/')
  buildah('commit', '--quiet', '--rm', container, name)
  return true
}

/** By every step of the Dockerfile; npm finds its packages as it does on this machine. */
function buildImage(base: string, name: string): void {
  const ofNpm = ['userconfig', 'globalconfig'].map((key) => run('npm', ['config', 'get', key]))
  const places = [
    ['/etc/ssl/certs', '/etc/ssl/certs'],
    [ofNpm[0] ?? '', '/root/.npmrc'],
    [ofNpm[1] ?? '', '/usr/local/etc/npmrc'],
  ] as const
  const seen = places.filter(([path]) => existsSync(path))
  buildah(
    'bud',
    ...['--isolation', 'chroot', '--network', 'host', '--format', 'docker', '--layers=false'],
    ...['--build-arg', `NODE_IMAGE=${base}`],
    ...['--build-arg', `COMMIT=${run('git', ['-C', root, 'rev-parse', 'HEAD'])}`],
    ...seen.flatMap(([path, inside]) => ['--volume', `${path}:${inside}:ro`]),
    ...['--tag', name, root],
  )
}

/** Only what a container has: its own mounts on a read-only root, its own processes and its own loopback. */
const asContainer = `
  mount --make-rprivate /
  mount --bind "$ROOT" "$ROOT"
  mount --bind "$DATA" "$ROOT/data"
  mount -t tmpfs tmpfs "$ROOT/tmp"
  mount -t proc proc "$ROOT/proc"
  mount -t tmpfs -o mode=755 tmpfs "$ROOT/dev"
  for name in null zero random urandom; do
    touch "$ROOT/dev/$name"
    mount --bind "/dev/$name" "$ROOT/dev/$name"
  done
  mount -o remount,bind,ro "$ROOT"
  ip link set lo up
  exec setpriv --no-new-privs chroot --userspec="$OWNER" "$ROOT" env -i "$@"
`

async function runContainer(folder: string, config: ImageConfig): Promise<void> {
  const data = join(scratch, 'data')
  run('mkdir', ['--mode=700', data])
  const passwd = readFileSync(join(folder, 'etc/passwd'), 'utf8').split('\n')
  const [, , uid, gid] = passwd.find((line) => line.startsWith(`${config.User}:`))?.split(':') ?? []
  if (uid === undefined || gid === undefined) throw new Error(`no user ${config.User}`)
  chownSync(data, Number(uid), Number(gid))
  if (!('/data' in config.Volumes)) throw new Error('/data is no volume')
  const env = [...config.Env, 'PROVIDER=sandbox', 'PUBLIC_URL=http://127.0.0.1:3000']
  const inFolder = ['sh', '-c', `cd ${config.WorkingDir} && exec "$@"`, 'sh']
  const service = spawn(
    'unshare',
    [
      ...['--pid', '--mount', '--net', '--ipc', '--uts', '--fork', '--kill-child'],
      ...['sh', '-ec', asContainer, 'sh', ...env, ...inFolder, ...config.Cmd],
    ],
    {
      env: { PATH: process.env.PATH, ROOT: folder, DATA: data, OWNER: `${uid}:${gid}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  let output = ''
  for (const stream of [service.stdout, service.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      output += bytes.toString()
    })
  }
  const ended = new Promise<number | null>((resolve) => service.once('close', resolve))
  let last = Number(service.pid)
  try {
    const first = await firstProcess(Number(service.pid))
    last = Number(first)
    /** As `docker exec` does it. */
    const within = (command: readonly string[]) =>
      spawnSync(
        'nsenter',
        [
          ...[
            '--target',
            first,
            '--mount',
            '--pid',
            '--net',
            '--ipc',
            `--root=/proc/${first}/root`,
          ],
          ...[`--wd=/proc/${first}/root${config.WorkingDir}`, '--setuid', uid, '--setgid', gid],
          ...['env', '-i', ...env, ...command],
        ],
        { encoding: 'utf8', timeout: 30_000, killSignal: 'SIGKILL' },
      )
    const [, ...health] = config.Healthcheck.Test
    await until(
      () => within(health).status === 0,
      'the health check does not pass',
      () => output,
    )
    step('health check')

    expectUser(first, uid)
    const written = within(['sh', '-c', 'touch /app/x; touch /x; touch /data/x && rm /data/x'])
    if (written.status !== 0 || !/Read-only[\s\S]*Read-only/.test(written.stderr)) {
      throw new Error(`only /data may be written to: ${written.stderr}`)
    }
    const token = readFileSync(join(data, 'secrets/secrets.env'), 'utf8')
    const charge = spawnSync(
      'nsenter',
      ['--target', first, '--net', process.execPath, join(root, 'ops/image/charge.ts')],
      {
        encoding: 'utf8',
        env: { ...process.env, ADMIN_TOKEN: /^ADMIN_TOKEN=(.*)$/m.exec(token)?.[1] },
      },
    )
    if (charge.status !== 0) throw new Error(`no charge: ${charge.stdout}${charge.stderr}`)
    step(charge.stdout.trim())

    const command = ['npm', 'run', 'flows:new', '--', 'tiendanube', '/data/flows']
    const { status, stdout, stderr } = within(command)
    if (status !== 0 || !stdout.includes('articulos.flow.yaml: written')) {
      throw new Error(`${command.join(' ')} ended with ${status}: ${stdout}${stderr}`)
    }
    step(command.join(' '))

    process.kill(Number(first), 'SIGTERM')
    const code = await Promise.race([ended, wait(25_000, 'no end')])
    if (code !== 0) throw new Error(`SIGTERM ended it with ${code}: ${output.slice(-2_000)}`)
    step('SIGTERM ends it with 0')
  } finally {
    // With process 1 of a container all of its processes end.
    if (service.exitCode === null) process.kill(last, 'SIGKILL')
    await ended
  }
}

/** The number of process 1 of the container as this machine has it, once the service has taken its place. */
async function firstProcess(parent: number): Promise<string> {
  let found = ''
  await until(
    () => {
      found = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim()
      if (!/^\d+$/.test(found)) return false
      return readFileSync(`/proc/${found}/comm`, 'utf8').trim() !== 'sh'
    },
    'the container does not start',
    () => '',
  )
  return found
}

function expectUser(pid: string, uid: string): void {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const field = (name: string) => new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(status)?.[1] ?? ''
  const [real, effective] = field('Uid').split(/\s+/)
  const isFirst = field('NSpid').split(/\s+/).at(-1) === '1'
  const hasNoRights = /^0+$/.test(field('CapEff')) && field('NoNewPrivs') === '1'
  if (real !== uid || effective !== uid || !isFirst || !hasNoRights) {
    throw new Error(`it does not run as process 1 of user ${uid} without rights:\n${status}`)
  }
}

async function until(isSo: () => boolean, problem: string, why: () => string): Promise<void> {
  // On a busy machine a first start takes many times as long.
  const end = performance.now() + 120_000
  while (!isSo()) {
    if (performance.now() > end) throw new Error(`${problem}: ${why()}`)
    await wait(500)
  }
}

async function check(): Promise<void> {
  const base = `localhost/node-base:${packageJson.devDependencies.node}`
  const name = `localhost/tillbridge:check-${process.pid}`
  if (!buildBase(base)) {
    say('SKIPPED: the image, because debootstrap gets no Debian here')
    return
  }
  step(`base with Node ${packageJson.devDependencies.node}`)
  buildImage(base, name)
  step('image by the Dockerfile')
  const container = buildah('from', name)
  try {
    const { Docker } = JSON.parse(buildah('inspect', '--type', 'image', name))
    await runContainer(buildah('mount', container), Docker.config)
  } finally {
    buildah('rm', container)
    buildah('rmi', name)
  }
}

const reason = whyNot()
try {
  if (reason === undefined) await check()
  else say(`SKIPPED: the image, because ${reason}`)
} catch (error) {
  const { message, stderr } = error as Error & { stderr?: string }
  process.stderr.write(`${message}\n${stderr ?? ''}`)
  process.exitCode = 1
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
