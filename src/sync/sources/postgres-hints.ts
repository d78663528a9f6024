import { Client } from 'pg'
import { checkConnectionFiles } from '../../db/connection-files.ts'

/** Somebody listens on a channel of a database until this is called. */
export type Unfollow = () => Promise<void>

const connectMs = 10_000
const retryMs = { first: 1_000, most: 60_000 }

type Hub = {
  channels: Map<string, Set<() => void>>
  client: Client | undefined
  retry: NodeJS.Timeout | undefined
  delayMs: number
  isClosed: boolean
  /** What was asked of the connection last: it is asked one thing after the other. */
  asked: Promise<unknown>
}

/** One connection listens for all flows of this process that read the same database as the same user. */
const hubs = new Map<string, Hub>()

/**
 * Calls `onHint` whenever something is announced on the channel (`notify channel`), and each time the connection is there
 * again, since what was announced meanwhile is lost. It is a hint and nothing more: a database that cannot be reached is tried
 * again and again, and nobody is told but by the polls, which go on.
 */
export function followPostgres(url: string, channel: string, onHint: () => void): Unfollow {
  const hub = hubs.get(url) ?? open(url)
  const listeners = hub.channels.get(channel) ?? new Set()
  const isNew = !hub.channels.has(channel)
  hub.channels.set(channel, listeners.add(onHint))
  if (isNew) void ask(hub, hub.client, `listen ${quoted(channel)}`).catch(() => undefined)
  return async () => {
    listeners.delete(onHint)
    if (listeners.size > 0) return
    hub.channels.delete(channel)
    if (hub.channels.size > 0) {
      await ask(hub, hub.client, `unlisten ${quoted(channel)}`).catch(() => undefined)
      return
    }
    hubs.delete(url)
    hub.isClosed = true
    clearTimeout(hub.retry)
    await hub.client?.end().catch(() => undefined)
  }
}

function open(url: string): Hub {
  const hub: Hub = {
    channels: new Map(),
    client: undefined,
    retry: undefined,
    delayMs: retryMs.first,
    isClosed: false,
    asked: Promise.resolve(),
  }
  hubs.set(url, hub)
  void connect(hub, url)
  return hub
}

async function connect(hub: Hub, url: string): Promise<void> {
  let client: Client | undefined
  const again = () => {
    if (hub.isClosed || hub.client !== client) return
    hub.client = undefined
    hub.retry = setTimeout(() => void connect(hub, url), hub.delayMs)
    hub.retry.unref()
    hub.delayMs = Math.min(hub.delayMs * 2, retryMs.most)
  }
  try {
    checkConnectionFiles(url)
    client = new Client({
      connectionString: url,
      application_name: 'tillbridge',
      connectionTimeoutMillis: connectMs,
      keepAlive: true,
    })
    hub.client = client
    client.on('error', again)
    client.on('end', again)
    client.on('notification', ({ channel }) => hint(hub.channels.get(channel)))
    const connected = client.connect()
    hub.asked = connected.catch(() => undefined)
    await connected
    for (const channel of hub.channels.keys()) await ask(hub, client, `listen ${quoted(channel)}`)
    hub.delayMs = retryMs.first
    for (const listeners of hub.channels.values()) hint(listeners)
    if (hub.isClosed) await client.end()
  } catch {
    again()
    await client?.end().catch(() => undefined)
  }
}

function ask(hub: Hub, client: Client | undefined, statement: string): Promise<unknown> {
  const answered = hub.asked.then(() => client?.query(statement))
  hub.asked = answered.catch(() => undefined)
  return answered
}

function hint(listeners: ReadonlySet<() => void> | undefined): void {
  for (const onHint of listeners ?? []) onHint()
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
