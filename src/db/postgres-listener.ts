import { Client, type ClientConfig, escapeIdentifier } from 'pg'
import { type Backoff, backoffMs } from '../domain/backoff.ts'
import type { DatabaseLog, ListenerHandlers } from './engine.ts'

/** With the time of an attempt the longest limits how long notifications are missing after the server is back. */
const PAUSES: Backoff = { firstMs: 100, longestMs: 2_000, jitter: 0.5 }
/** For a connection, and for LISTEN: TCP keep-alive does not begin while a statement waits for the server. */
const ANSWER_TIMEOUT_MS = 3_000

/**
 * LISTEN for all channels on one separate connection, opened with the first channel. It reconnects after an outage; TCP
 * keep-alive shows one that neither side announces. Notifications of that time are lost and reported as a gap. So a
 * notification may shorten a wait, but never replace a read of the tables.
 */
export class PostgresListener {
  readonly #config: ClientConfig
  readonly #log: DatabaseLog
  readonly #channels = new Map<string, Set<ListenerHandlers>>()
  #client: Client | undefined
  #connecting: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  #commands: Promise<void> = Promise.resolve()
  #failures = 0
  #stopped = false

  constructor(config: ClientConfig, log: DatabaseLog) {
    this.#config = {
      ...config,
      connectionTimeoutMillis: ANSWER_TIMEOUT_MS,
      query_timeout: ANSWER_TIMEOUT_MS,
    }
    this.#log = log
  }

  /**
   * Resolves when the channel is open, or when the first attempt failed and retries follow. The returned function
   * ends it.
   */
  async listen(channel: string, handlers: ListenerHandlers): Promise<() => Promise<void>> {
    // A separate object per call: the same listener may be added twice and removed once.
    const own = { ...handlers }
    const others = this.#channels.get(channel) ?? new Set()
    this.#channels.set(channel, others.add(own))
    if (this.#client) {
      await this.#run(this.#client, `listen ${escapeIdentifier(channel)}`)
    } else {
      await this.#connect()
    }
    return async () => await this.#unlisten(channel, own)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#retry)
    await this.#connecting
    const client = this.#client
    this.#client = undefined
    await client?.end()
  }

  async #unlisten(channel: string, own: ListenerHandlers): Promise<void> {
    const rest = this.#channels.get(channel)
    rest?.delete(own)
    if (!rest || rest.size > 0) return
    this.#channels.delete(channel)
    if (this.#client) await this.#run(this.#client, `unlisten ${escapeIdentifier(channel)}`)
  }

  /**
   * Runs one command after the other, as pg requires. A failure ends the connection, so the caller need not handle
   * it; the next connection opens all channels.
   */
  async #run(client: Client, command: string): Promise<void> {
    this.#commands = this.#commands.then(async () => {
      if (this.#client !== client) return
      await client.query(command).catch((error: unknown) => this.#lost(client, error))
    })
    await this.#commands
  }

  async #connect(): Promise<void> {
    if (this.#client || this.#stopped || this.#retry) return
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = undefined
    })
    await this.#connecting
  }

  async #open(): Promise<void> {
    const client = new Client(this.#config)
    client.on('error', (error) => this.#lost(client, error))
    client.on('end', () => this.#lost(client, undefined))
    client.on('notification', ({ channel, payload }) => {
      for (const handlers of this.#channels.get(channel) ?? []) handlers.onPayload(payload ?? '')
    })
    try {
      await client.connect()
      // A channel that is added meanwhile has no client yet, so repeat until all are open.
      const informed = new Set<string>()
      for (let rest = this.#missing(informed); rest.length > 0; rest = this.#missing(informed)) {
        await client.query(rest.map((channel) => `listen ${escapeIdentifier(channel)}`).join(';'))
        for (const channel of rest) informed.add(channel)
      }
    } catch (error) {
      destroy(client)
      this.#tryAgain(error)
      return
    }
    this.#client = client
    const wasAway = this.#failures > 0
    this.#failures = 0
    if (!wasAway) return
    for (const listeners of this.#channels.values()) for (const { onGap } of listeners) onGap()
  }

  #missing(informed: Set<string>): string[] {
    return [...this.#channels.keys()].filter((channel) => !informed.has(channel))
  }

  #lost(client: Client, error: unknown): void {
    if (this.#client !== client) return
    this.#client = undefined
    destroy(client)
    this.#tryAgain(error)
  }

  #tryAgain(error: unknown): void {
    if (this.#stopped) return
    this.#failures += 1
    const delayMs = backoffMs(this.#failures, PAUSES)
    this.#log('warn', { err: error, delayMs }, 'the listening database connection was lost')
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      void this.#connect()
    }, delayMs)
  }
}

/** Closes the socket at once: `end` alone would wait for an answer that may never come. */
function destroy(client: Client): void {
  client.end().catch(() => {})
}
