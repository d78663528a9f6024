import { hash } from 'node:crypto'
import type { LookupFunction, Socket } from 'node:net'
import type { SFTPWrapper } from 'ssh2'
import type { AddressPolicy } from '../../outbound/address-class.ts'
import { dialGuarded } from '../../outbound/guarded-agent.ts'
import { SourceError } from '../types.ts'

export type SftpSettings = AddressPolicy & {
  host: string
  port: number
  user: string
  password?: string | undefined
  /** In OpenSSH, PEM or PuTTY format. */
  privateKey?: string | undefined
  passphrase?: string | undefined
  /** Allowed server fingerprints, as `ssh-keygen -l` shows them. One must match. */
  hostKeys: readonly string[]
  /** Longest wait for the server: for the handshake, and then for each response. */
  timeoutMs: number
  lookup?: LookupFunction | undefined
}

/** An error response of the server. `code` is the operating system's code with the same meaning, if any. */
class SftpError extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

export type SftpSession = {
  /**
   * Sends one request. `place` is named in the error. Also rejects when the connection ends or the server does not respond in
   * time.
   */
  request<T>(place: string, start: (sftp: SFTPWrapper, done: Done<T>) => void): Promise<T>
  isOpen(): boolean
  end(): void
}

/** Callback type of the library. */
type Done<T> = (error: Error | null | undefined, value?: T) => void

const keepaliveMs = 15_000
/** Status codes of SFTP 3 (draft-ietf-secsh-filexfer-02, section 7). No decision depends on the others. */
const codes: Readonly<Record<number, string>> = { 1: 'EOF', 2: 'ENOENT', 3: 'EACCES' }
export const unsupported = 'SFTP_8'

/**
 * Connects to a server with one of the known host keys. Another server receives no credentials. Throws SourceError for
 * problems that the operator can fix; rejects with the signal's reason when it aborts.
 *
 * Uses ssh2 directly: a call of ssh2-sftp-client (12.1) waits without limit for a server that does not respond, and takes no
 * signal.
 */
export async function openSftp(
  settings: SftpSettings,
  callerSignal: AbortSignal,
): Promise<SftpSession> {
  // Loaded on first use: it would double the start time of the service.
  const { Client } = (await import('ssh2')).default
  const { timeoutMs, password } = settings
  const handshakeTimeout = new AbortController()
  const signal = AbortSignal.any([callerSignal, handshakeTimeout.signal])
  const handshakeTimer = setTimeout(() => handshakeTimeout.abort(noAnswer(timeoutMs)), timeoutMs)
  const client = new Client()
  const broken = Promise.withResolvers<never>()
  broken.promise.catch(() => undefined)
  let isOpen = true
  let socket: Socket | undefined
  let unknownKey: SourceError | undefined
  const onAbort = () => closeWithError(signal.reason)
  const closeWithError = (reason: unknown) => {
    if (!isOpen) return
    isOpen = false
    signal.removeEventListener('abort', onAbort)
    broken.reject(reason)
    socket?.destroy()
  }
  client.on('error', (error) => closeWithError(unknownKey ?? toSourceError(error)))
  client.on('close', () => closeWithError(new SourceError({ code: 'SERVER_LEFT' })))
  if (password !== undefined) {
    client.on('keyboard-interactive', (_name, _text, _language, prompts, answer) =>
      // A prompt with echo does not ask for the password.
      answer(prompts.map(({ echo }) => (echo ? '' : password))),
    )
  }
  try {
    const dialled = await dialGuarded(settings, settings, signal)
    socket = dialled
    dialled.setNoDelay(true)
    signal.addEventListener('abort', onAbort, { once: true })
    const ready = new Promise<void>((resolve) => client.once('ready', resolve))
    connect(client, {
      ...identityOf(settings),
      sock: dialled,
      username: settings.user,
      // Our own timer limits the whole handshake.
      readyTimeout: 0,
      keepaliveInterval: keepaliveMs,
      hostVerifier: (key: Buffer) => {
        const shown = fingerprint(key)
        if (settings.hostKeys.includes(shown)) return true
        unknownKey = new SourceError({
          code: 'OTHER_HOST_KEY',
          data: { key: shown, type: typeOfKey(key) },
        })
        return false
      },
    })
    await Promise.race([ready, broken.promise])
    const opened = Promise.withResolvers<SFTPWrapper>()
    client.sftp((error, sftp) =>
      error
        ? opened.reject(new SourceError({ code: 'NO_SFTP', data: { said: error.message } }))
        : opened.resolve(sftp),
    )
    const sftp = await Promise.race([opened.promise, broken.promise])
    sftp.on('close', () => closeWithError(new SourceError({ code: 'SERVER_LEFT' })))
    clearTimeout(handshakeTimer)
    const responseTimeout = createResponseTimeout(timeoutMs, () =>
      closeWithError(noAnswer(timeoutMs)),
    )
    return {
      isOpen: () => isOpen,
      end() {
        if (!isOpen) return
        isOpen = false
        signal.removeEventListener('abort', onAbort)
        broken.reject(new SourceError({ code: 'CONNECTION_CLOSED' }))
        client.end()
        dialled.destroySoon()
      },
      async request(place, start) {
        if (!isOpen) return await broken.promise
        const answer = Promise.withResolvers<never>()
        const answered = responseTimeout()
        try {
          start(sftp, (error, value) =>
            error ? answer.reject(refusal(place, error)) : answer.resolve(value as never),
          )
          return await Promise.race([answer.promise, broken.promise])
        } finally {
          answered()
        }
      },
    }
  } catch (error) {
    clearTimeout(handshakeTimer)
    closeWithError(error)
    throw signal.aborted ? signal.reason : error
  }
}

/**
 * Creates a timeout for responses. It runs while requests are pending, and each response restarts it for all of them. On a
 * slow line the last response arrives after all earlier ones.
 */
function createResponseTimeout(timeoutMs: number, onTimeout: () => void): () => () => void {
  let waiting = 0
  let timer: NodeJS.Timeout | undefined
  const restart = () => {
    clearTimeout(timer)
    timer = waiting > 0 ? setTimeout(onTimeout, timeoutMs) : undefined
  }
  return () => {
    waiting += 1
    if (waiting === 1) restart()
    return () => {
      waiting -= 1
      restart()
    }
  }
}

/** The fingerprint that an operator configures: SHA-256 of the key, in OpenSSH notation. */
export function fingerprint(key: Buffer): string {
  return `SHA256:${hash('sha256', key, 'base64').replace(/=+$/, '')}`
}

/** A key blob begins with the name of its type (RFC 4253, 6.6). */
function typeOfKey(key: Buffer): string {
  const length = key.length < 4 ? 0 : key.readUInt32BE(0)
  return length > 0 && length <= 64 ? key.subarray(4, 4 + length).toString('latin1') : 'unknown'
}

function identityOf({ password, privateKey, passphrase }: SftpSettings) {
  return {
    // In the order of the attempts: some servers require a key and then a password.
    authHandler: [
      ...(privateKey === undefined ? [] : (['publickey'] as const)),
      ...(password === undefined ? [] : (['password', 'keyboard-interactive'] as const)),
    ],
    ...(privateKey !== undefined && { privateKey }),
    ...(passphrase !== undefined && { passphrase }),
    ...(password !== undefined && { password, tryKeyboard: true }),
  }
}

type Client = InstanceType<typeof import('ssh2').Client>

function connect(client: Client, config: Parameters<Client['connect']>[0]): void {
  try {
    client.connect(config)
  } catch (error) {
    // Only an unreadable key throws here. The message contains nothing of the key.
    const said = error instanceof Error ? error.message : String(error)
    throw new SourceError({ code: 'PRIVATE_KEY_UNREADABLE', data: { said } })
  }
}

function toSourceError(error: Error & { level?: string }): Error {
  switch (error.level) {
    case 'client-authentication':
      return new SourceError({ code: 'USER_REFUSED' })
    case 'client-timeout':
      return new SourceError({ code: 'SERVER_SILENT' })
    default:
      return error
  }
}

function refusal(place: string, error: Error & { code?: unknown }): Error {
  if (typeof error.code !== 'number') return error
  return new SftpError(codes[error.code] ?? `SFTP_${error.code}`, `${place}: ${error.message}`)
}

function noAnswer(timeoutMs: number): SourceError {
  return new SourceError({ code: 'SILENT', data: { ms: timeoutMs } })
}
