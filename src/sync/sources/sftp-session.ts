import { hash } from 'node:crypto'
import type { LookupFunction, Socket } from 'node:net'
import type { SFTPWrapper } from 'ssh2'
import { dialGuarded } from '../../outbound/guarded-agent.ts'
import { SourceError } from '../types.ts'

export type SftpSettings = {
  host: string
  port: number
  user: string
  password?: string | undefined
  /** In the form of OpenSSH, PEM or PuTTY. */
  privateKey?: string | undefined
  passphrase?: string | undefined
  /** Fingerprints, as `ssh-keygen -l` shows them: one of them has to be the server's. */
  hostKeys: readonly string[]
  /** Longest wait for the server: for the whole greeting, and then for each answer. */
  timeoutMs: number
  allowPrivateNetwork: boolean
  lookup?: LookupFunction | undefined
}

/** What a server answers to a request; `code` is that of the operating system where there is one of the same meaning. */
export class SftpError extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

export type SftpSession = {
  /** One request; `place` stands in what is told of a refusal. Rejects also when the connection ends or the server is silent. */
  ask<T>(place: string, start: (sftp: SFTPWrapper, done: Done<T>) => void): Promise<T>
  isOpen(): boolean
  end(): void
}

/** As the callbacks of the library are. */
type Done<T> = (error: Error | null | undefined, value?: T) => void

const keepaliveMs = 15_000
/** Of SFTP 3 (draft-ietf-secsh-filexfer-02, section 7); the others mean nothing that we decide by. */
const codes: Readonly<Record<number, string>> = { 1: 'EOF', 2: 'ENOENT', 3: 'EACCES' }
export const unsupported = 'SFTP_8'

/**
 * A connection to a server whose key is one of the known ones: to another one nothing is sent that identifies us. Throws
 * SourceError for what the operator can mend; rejects with the reason of the signal when that aborts.
 *
 * On ssh2 itself, not ssh2-sftp-client (12.1): a call of that one waits for a silent server without end and takes no signal.
 */
export async function openSftp(
  settings: SftpSettings,
  callerSignal: AbortSignal,
): Promise<SftpSession> {
  // Loaded when first needed: it would double the time in which the service comes up.
  const { Client } = (await import('ssh2')).default
  const { timeoutMs, password } = settings
  const silence = new AbortController()
  const signal = AbortSignal.any([callerSignal, silence.signal])
  const greeting = setTimeout(() => silence.abort(noAnswer(timeoutMs)), timeoutMs)
  const client = new Client()
  const broken = Promise.withResolvers<never>()
  broken.promise.catch(() => undefined)
  let isOpen = true
  let socket: Socket | undefined
  let unknownKey: SourceError | undefined
  const onAbort = () => breakWith(signal.reason)
  const breakWith = (reason: unknown) => {
    if (!isOpen) return
    isOpen = false
    signal.removeEventListener('abort', onAbort)
    broken.reject(reason)
    socket?.destroy()
  }
  client.on('error', (error) => breakWith(unknownKey ?? told(error)))
  client.on('close', () => breakWith(new SourceError('the server ended the connection')))
  if (password !== undefined) {
    client.on('keyboard-interactive', (_name, _text, _language, prompts, answer) =>
      // A question whose answer is shown is not the one for the password.
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
      // The whole greeting has our own clock.
      readyTimeout: 0,
      keepaliveInterval: keepaliveMs,
      hostVerifier: (key: Buffer) => {
        const shown = fingerprint(key)
        if (settings.hostKeys.includes(shown)) return true
        unknownKey = new SourceError(
          `the server shows the host key ${shown} (${typeOfKey(key)}), which is not source.hostKey; nothing was sent to it`,
        )
        return false
      },
    })
    await Promise.race([ready, broken.promise])
    const opened = Promise.withResolvers<SFTPWrapper>()
    client.sftp((error, sftp) =>
      error
        ? opened.reject(new SourceError(`the server has no SFTP for this user: ${error.message}`))
        : opened.resolve(sftp),
    )
    const sftp = await Promise.race([opened.promise, broken.promise])
    sftp.on('close', () => breakWith(new SourceError('the server ended the connection')))
    clearTimeout(greeting)
    const watch = watchAnswers(timeoutMs, () => breakWith(noAnswer(timeoutMs)))
    return {
      isOpen: () => isOpen,
      end() {
        if (!isOpen) return
        isOpen = false
        signal.removeEventListener('abort', onAbort)
        broken.reject(new SourceError('the connection was closed'))
        client.end()
        dialled.destroySoon()
      },
      async ask(place, start) {
        if (!isOpen) return await broken.promise
        const answer = Promise.withResolvers<never>()
        const answered = watch()
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
    clearTimeout(greeting)
    breakWith(error)
    throw signal.aborted ? signal.reason : error
  }
}

/**
 * Tells when nothing is answered for so long although something was asked. Many requests are under way at a time, so each answer
 * counts for all of them: over a slow line the last one waits for those before it.
 */
function watchAnswers(timeoutMs: number, onSilence: () => void): () => () => void {
  let waiting = 0
  let timer: NodeJS.Timeout | undefined
  const restart = () => {
    clearTimeout(timer)
    timer = waiting > 0 ? setTimeout(onSilence, timeoutMs) : undefined
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

/** What an operator pins: SHA-256 over the key, as OpenSSH writes it. */
export function fingerprint(key: Buffer): string {
  return `SHA256:${hash('sha256', key, 'base64').replace(/=+$/, '')}`
}

/** A key blob begins with the name of its kind (RFC 4253, 6.6). */
function typeOfKey(key: Buffer): string {
  const length = key.length < 4 ? 0 : key.readUInt32BE(0)
  return length > 0 && length <= 64 ? key.subarray(4, 4 + length).toString('latin1') : 'unknown'
}

function identityOf({ password, privateKey, passphrase }: SftpSettings) {
  return {
    // Given in the order of the attempts: some servers want a key and then a password.
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
    // Only a key that cannot be read is refused here; what is said of it holds nothing of it.
    const message = error instanceof Error ? error.message : 'unknown failure'
    throw new SourceError(`source.privateKey: ${message}`)
  }
}

function told(error: Error & { level?: string }): Error {
  switch (error.level) {
    case 'client-authentication':
      return new SourceError('the server refuses the user, or its password or key')
    case 'client-timeout':
      return new SourceError('the server does not answer any more')
    default:
      return error
  }
}

function refusal(place: string, error: Error & { code?: unknown }): Error {
  if (typeof error.code !== 'number') return error
  return new SftpError(codes[error.code] ?? `SFTP_${error.code}`, `${place}: ${error.message}`)
}

function noAnswer(timeoutMs: number): SourceError {
  return new SourceError(`no answer for ${timeoutMs} ms (limits.timeout)`)
}
