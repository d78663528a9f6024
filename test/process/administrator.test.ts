import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import { request } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { startSandbox } from '../../sandbox/server.ts'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { commandsBelow } from '../support/document-blocks.ts'
import { dropDatabase, onServer } from '../support/postgres-template.ts'
import { payByCard } from '../support/till.ts'
import { type Machine, openMachine, whyNoMachine } from './machine.ts'
import { hasCaddy, hasNginx } from './proxies.ts'
import { adminTokenOf, freePort } from './real-process.ts'
import { openShopAt } from './real-shop.ts'

/** What the administrator's pages say to type, typed on a clean machine where the service runs as a user without rights. */
const slow = { tags: ['long'] }
const server = postgresUrl ?? ''
const root = fileURLToPath(new URL('../..', import.meta.url))
const below = (page: string, heading: string) =>
  commandsBelow(root, `docs/how-to/${page}.md`, heading)
const [installation = ''] = below('install', '## With systemd')
const [makeFolder = ''] = below('back-up-and-restore', '# Back up and restore')

const hasTools = ['createdb', 'psql', 'pg_dump', 'pg_restore'].every(
  (tool) => spawnSync(tool, ['--version']).status === 0,
)
const onMachine = test.skipIf(whyNoMachine !== undefined)
const hasServer = whyNoMachine === undefined && postgresUrl !== undefined && hasTools
const onPostgres = test.skipIf(!hasServer)
const needsServer = `${needsPostgres}, and PostgreSQL's programs`
if (whyNoMachine) process.stderr.write(`skipped: ${whyNoMachine}\n`)

/** A machine until the end of the test, with a role and a database of its own if a server is there. */
async function newMachine(): Promise<Machine> {
  const postgres = hasServer ? { server, name: nameInRun('machine') } : undefined
  const machine = await openMachine(postgres)
  onTestFinished(async () => {
    await machine.remove()
    if (!postgres) return
    for (const end of ['', '_old']) await dropDatabase(server, postgres.name + end)
    await onServer(server, (client) => client.query(`drop role if exists ${postgres.name}`))
  })
  return machine
}

/** The settings of the page, with what a shell puts in. */
const pageSettings = parseEnv(/(?<=<<END\n)[\s\S]*?(?=^END$)/m.exec(installation)?.[0] ?? '')

/** The commands of the page with other settings. */
const withSettings = (settings: NodeJS.Dict<string>) =>
  installation.replace(/(?<=<<END\n)[\s\S]*?(?=^END$)/m, () =>
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  )

async function untilHealthy(url: string): Promise<void> {
  const status = async () => (await fetch(`${url}/health`).catch(() => undefined))?.status
  await expect.poll(status, { timeout: 60_000, interval: 100 }).toBe(200)
}

async function ask(url: string, key: string, body?: object) {
  const answer = await request(url, {
    method: body ? 'POST' : 'GET',
    // As most tills do: a connection for each request.
    reset: true,
    headers: { 'x-api-token': key, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.body.text()
  if (answer.statusCode >= 300) throw new Error(`${url}: ${answer.statusCode} ${text}`)
  return JSON.parse(text) as Record<string, unknown>
}

type Shop = { url: string; sandboxUrl: string; key: string }

/** One sale as a till makes it, which takes every answer as final; resolves with the paid order. */
async function sell({ url, sandboxUrl, key }: Shop, box: string, ticket: string) {
  const charge = { caja_id: box, external_reference: ticket, amount: '100,00' }
  const { order_id: id } = await ask(`${url}/orders`, key, charge)
  const { mp_order_id: providerId } = await ask(`${url}/orders/${id}`, key)
  await ask(`${sandboxUrl}/_sandbox/orders/${providerId}/act`, '', payByCard)
  for (;;) {
    const order = await ask(`${url}/orders/${id}?wait=5`, key)
    if (order.status === 'processed') return order
  }
}

const ownFiles = (machine: Machine, folders: string) =>
  machine.asRoot(`find ${folders} -user 65534 -printf '%M %p\\n'`)

onPostgres(
  `the commands of the pages install the service for real cards and replace it, and it may write to its own folder only (${needsServer})`,
  slow,
  async () => {
    const machine = await newMachine()
    await machine.asRoot(installation.replaceAll('=…', '=from-the-panel'))
    await untilHealthy(`http://127.0.0.1:${machine.port(3000)}`)
    expect(machine.settings().ADMIN_TOKEN).toMatch(/^[0-9a-f]{64}$/)
    for (const forbidden of [
      'touch /opt/tillbridge-a/src/x',
      'touch /etc/tillbridge/x',
      'cat /etc/tillbridge/tillbridge.env',
    ]) {
      await expect(machine.asService(forbidden)).rejects.toThrow('Permission denied')
    }
    expect(await ownFiles(machine, '/opt /etc')).toBe('')
    const [withAStop = ''] = below('upgrade', '## With a stop')
    await machine.asRoot(withAStop)
    await untilHealthy(`http://127.0.0.1:${machine.port(3000)}`)
    expect(await machine.asService('npm run audit:verify')).toContain('log verifies')
  },
)

async function openEmbedded() {
  const sandboxPort = await freePort()
  const machine = await newMachine()
  await machine.asRoot(
    withSettings({
      PROVIDER: 'sandbox',
      SANDBOX_PORT: String(sandboxPort),
      POS_CREATE_DELAY_MS: '0',
    }).replaceAll(/^runuser .*\n/gm, ''),
  )
  const url = `http://127.0.0.1:${machine.port(3000)}`
  const sandboxUrl = `http://127.0.0.1:${sandboxPort}`
  await untilHealthy(url)
  const admin = await adminTokenOf(machine.path('/var/lib/tillbridge'))
  const { key } = await openShopAt({ url, sandboxUrl, admin }, ['CAJA-1'])
  const shop = { url, sandboxUrl, key }
  return { machine, shop, order: await sell(shop, 'CAJA-1', 'T-1') }
}

onMachine(
  'the commands of the page back up and restore the embedded database, in a folder that belongs to the user of the service',
  // The commands are those of backup.test.ts, which a change plays.
  { ...slow, tags: ['night'] },
  async () => {
    const { machine, shop, order } = await openEmbedded()
    await machine.asRoot(makeFolder)
    const [stop = '', backUp = '', start = ''] = below(
      'back-up-and-restore',
      '## Back up the embedded database',
    )
    await machine.asRoot(stop)
    await machine.asService(backUp)
    expect(await ownFiles(machine, '/backups')).toMatch(/^drwx-{6} .*\n-rw-{7} .*\.tar\.gz\n$/)
    await machine.asRoot(start)
    await untilHealthy(shop.url)
    await sell(shop, 'CAJA-1', 'T-2')

    const [trial = ''] = below('back-up-and-restore', '## Try a restore')
    await machine.asService(trial.replace('/tmp/trial', '/var/lib/tillbridge/trial'))

    const [, putAway = '', , restore = '', verify = '', startAgain = ''] = below(
      'back-up-and-restore',
      '## Restore',
    )
    await machine.asRoot(putAway)
    await machine.asService(restore.replace('2026-11-26', '$(date +%F)'))
    expect(await machine.asService(verify)).toContain('log verifies')
    await machine.asRoot(startAgain)
    await untilHealthy(shop.url)
    const found = await ask(`${shop.url}/orders/${order.order_id}`, shop.key)
    expect(found).toMatchObject({ status: 'processed', external_reference: 'T-1' })
  },
)

onPostgres(
  `the commands of the page move a shop with its orders to PostgreSQL, where it goes on selling and is backed up and restored (${needsServer})`,
  slow,
  async () => {
    const { machine, shop, order } = await openEmbedded()
    const [prepare = '', move = '', start = ''] = below(
      'back-up-and-restore',
      '## Move to PostgreSQL',
    )
    await machine.asRoot(prepare)
    const moved = await machine.asService(move)
    expect(moved).toMatch(/^ {2}orders: 1 /m)
    expect(moved).toContain('audit log verifies')
    await machine.asRoot(start)
    await untilHealthy(shop.url)
    const path = `/orders/${order.order_id}`
    expect(await ask(shop.url + path, shop.key)).toMatchObject({
      status: 'processed',
      external_reference: 'T-1',
      amount: order.amount,
    })
    await sell(shop, 'CAJA-1', 'T-2')
    const url = String(machine.settings().DATABASE_URL)
    const rows = await onServer(url, (client) =>
      client.query('select external_reference as ticket from orders order by 1'),
    )
    expect(rows.rows).toEqual([{ ticket: 'T-1' }, { ticket: 'T-2' }])

    await machine.asRoot(makeFolder)
    for (const block of below('back-up-and-restore', '## Back up PostgreSQL'))
      await machine.asService(block)
    expect(await ownFiles(machine, '/backups')).toMatch(/^drwx-{6} .*\n-rw-{7} .*\.dump\n$/)
    const [putAway = '', , restore = '', , verify = '', startAgain = ''] = below(
      'back-up-and-restore',
      '## Restore',
    )
    await machine.asRoot(putAway)
    await machine.asService(restore.replace('2026-11-26', '$(date +%F)'))
    expect(await machine.asService(verify)).toContain('log verifies')
    await machine.asRoot(startAgain)
    await untilHealthy(shop.url)
    expect(await ask(shop.url + path, shop.key)).toMatchObject({ status: 'processed' })
  },
)

const boxes = ['CAJA-1', 'CAJA-2', 'CAJA-3', 'CAJA-4']
/** What the page says to those who have Caddy. */
const withCaddy = (page: string) =>
  /With Caddy: `(.*)`/.exec(readFileSync(join(root, `docs/how-to/${page}.md`), 'utf8'))?.[1] ?? ''

/** Puts the shipped file of a proxy in front of the service, without TLS, by the commands of the page. */
async function openProxy(
  machine: Machine,
  {
    file,
    host,
    listen,
    commands,
  }: { host: RegExp } & Record<'file' | 'listen' | 'commands', string>,
): Promise<string> {
  const path = machine.path(`/opt/tillbridge-a/ops/${file}`)
  const address = `127.0.0.1:${await freePort()}`
  const edited = readFileSync(path, 'utf8')
    .replace(/^ *ssl_.*\n/gm, '')
    .replace(host, `${listen}${address}`)
    .replace(':3000', `:${machine.port(3000)}`)
    .replace(':8080', `:${machine.port(8080)}`)
  writeFileSync(path, edited)
  await machine.asRoot(commands)
  await untilHealthy(`http://${address}/caja`)
  return `http://${address}`
}

if (!hasNginx) process.stderr.write('skipped: nginx is not installed\n')
else if (!hasCaddy) process.stderr.write('skipped by Caddy: it is not installed\n')
test.skipIf(!hasServer || !hasNginx)(
  `the commands of the page upgrade there and back while tills charge through nginx: no request is refused, no sale is charged twice (${needsServer}, and nginx)`,
  slow,
  async () => {
    const sandbox = await startSandbox({ port: 0, pace: { fetchMs: 0, eventMs: 0 } })
    onTestFinished(() => sandbox.close())
    const machine = await newMachine()
    const { DATABASE_URL, ADMIN_TOKEN, ENCRYPTION_KEYS, SYNC_TOKEN, TRUST_PROXY } = pageSettings
    await machine.asRoot(
      withSettings({
        ...{ DATABASE_URL, ADMIN_TOKEN, ENCRYPTION_KEYS, SYNC_TOKEN, TRUST_PROXY },
        ...{ PROVIDER: 'sandbox', MP_API_URL: sandbox.url, MP_AUTH_URL: sandbox.url },
        POS_CREATE_DELAY_MS: '0',
      }),
    )
    const url = `http://127.0.0.1:${machine.port(3000)}`
    await untilHealthy(url)
    const admin = String(machine.settings().ADMIN_TOKEN)
    const { key } = await openShopAt({ url, sandboxUrl: sandbox.url, admin }, boxes)
    const nginx = await openProxy(machine, {
      file: 'nginx/tillbridge.conf',
      host: /listen 443 ssl/,
      listen: 'listen ',
      commands: below('install', '## Behind a reverse proxy').join('\n'),
    })
    const caddy = hasCaddy
      ? await openProxy(machine, {
          file: 'caddy/Caddyfile',
          host: /^pay\.example\.com/m,
          listen: `{\n\tadmin 127.0.0.1:${await freePort()}\n}\nhttp://`,
          commands: withCaddy('install'),
        })
      : undefined
    sandbox.setWebhookUrl(`${nginx}/caja/webhooks`)

    const enough = new AbortController()
    const tickets: string[] = []
    const selling = Promise.all(
      boxes.map(async (box) => {
        const shop = { url: `${nginx}/caja`, sandboxUrl: sandbox.url, key }
        for (let number = 1; !enough.signal.aborted; number += 1) {
          const ticket = `${box}-${number}`
          tickets.push(ticket)
          await sell(shop, box, ticket)
          // Else four tills take a processor.
          await wait(150)
        }
      }),
    )
    // Its failure is seen at the end.
    selling.catch(() => enough.abort())

    const there = below('upgrade', '## While the tills charge')
      .join('\n')
      .replace(/^.*nginx -t.*$/m, (line) => (caddy ? `${line}\n${withCaddy('upgrade')}` : line))
    const sold: number[] = []
    for (let upgrades = 0; upgrades < 2; upgrades += 1) {
      const before = tickets.length
      await machine.asRoot(there)
      sold.push(tickets.length - before)
      if (caddy) await untilHealthy(`${caddy}/caja`)
      await wait(500)
    }
    enough.abort()
    await selling
    expect(Math.min(...sold)).toBeGreaterThan(10)
    const log = readFileSync(machine.path('/var/log/nginx/access.log'), 'utf8').trim().split('\n')
    expect(log.filter((line) => !/^[23]/.test(line))).toEqual([])
    const ordered = sandbox.ledger().orders.map((order) => order.external_reference)
    expect(ordered.sort()).toEqual(tickets.sort())
  },
)
