import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'

const ops = new URL('../../ops/', import.meta.url)
const shipped = readFileSync(new URL('nginx/tillbridge.conf', ops), 'utf8')
const caddyfile = readFileSync(new URL('caddy/Caddyfile', ops), 'utf8')

/** Whether nginx is installed; the tests that need it are left out otherwise. */
export const hasNginx: boolean = spawnSync('nginx', ['-v']).status === 0
export const hasCaddy: boolean = spawnSync('caddy', ['version']).status === 0

/**
 * A real nginx with the file of `ops/nginx` in `folder`, without TLS and at other ports: `port` hands our paths on without the
 * prefix, as the file says, and `keptPort` as they came.
 */
export async function startNginx(
  folder: string,
  ports: { port: number; keptPort: number; payment: number; control: number },
): Promise<ChildProcess> {
  const site = shipped
    .replace(/^ *ssl_.*\n/gm, '')
    .replace('127.0.0.1:3000', `127.0.0.1:${ports.payment}`)
    .replace('127.0.0.1:8080', `127.0.0.1:${ports.control}`)
  const at = (port: number) => site.replace('listen 443 ssl', `listen 127.0.0.1:${port}`)
  const kept = at(ports.keptPort).replace(/(proxy_pass \S+)\/;/g, '$1;')
  const file = await writeNginxConf(folder, `access_log off;\n${at(ports.port)}\n${kept}`)
  const child = spawn('nginx', ['-p', folder, '-c', file], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return await answering(child, ports.port)
}

/** The whole configuration of an nginx that keeps its files in `folder`, around what its http block has. */
export async function writeNginxConf(folder: string, http: string): Promise<string> {
  await mkdir(join(folder, 'logs'), { recursive: true })
  const scratch = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join('\n')
  const file = join(folder, 'nginx.conf')
  await writeFile(
    file,
    `daemon off; pid ${folder}/nginx.pid; error_log stderr; worker_processes 1; events {}
http { ${scratch}
${http} }
`,
  )
  return file
}

/** A real Caddy with the file of `ops/caddy`, without TLS and at another port. */
export async function startCaddy(
  folder: string,
  ports: { port: number; payment: number; control: number },
): Promise<ChildProcess> {
  const site = caddyfile
    .replace('pay.example.com {', `http://127.0.0.1:${ports.port} {`)
    .replace('127.0.0.1:3000', `127.0.0.1:${ports.payment}`)
    .replace('127.0.0.1:8080', `127.0.0.1:${ports.control}`)
  await mkdir(folder, { recursive: true })
  const file = join(folder, 'Caddyfile')
  await writeFile(file, `{\n\tadmin off\n}\n${site}`)
  const child = spawn('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], {
    stdio: 'ignore',
    env: { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
  })
  return await answering(child, ports.port)
}

async function answering(child: ChildProcess, port: number): Promise<ChildProcess> {
  for (let tries = 0; tries < 400; tries += 1) {
    if (child.exitCode !== null) throw new Error('the proxy ended at its start')
    const isUp = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined)
    if (isUp) return child
    await wait(25)
  }
  child.kill('SIGTERM')
  throw new Error('the proxy did not answer')
}

/** Ends it. */
export async function stopProxy(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}
