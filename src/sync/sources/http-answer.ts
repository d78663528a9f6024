import type { Agent } from 'undici'
import {
  type GuardedAnswer,
  guardedRequest,
  isPassingStatus,
  orAborted,
  RequestFailure,
} from '../../outbound/guarded-request.ts'
import { decideRetry, type RetryPolicy } from '../../outbound/retry-decision.ts'
import { describeRefusal } from '../destinations/http-excerpt.ts'
import { hideTexts } from '../net/hidden-texts.ts'
import { TokenError } from '../oauth/token-request.ts'
import { TokenBlockedError, type Tokens } from '../oauth/tokens.ts'
import { breathe } from '../poll/breather.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { JsonLimitError, parseJsonInTurns } from './json-in-turns.ts'
import { isRecord } from './json-items.ts'
import { declaredEncoding } from './xml-encoding.ts'
import { createXmlReader, SoapFaultError, type XmlForm } from './xml-records.ts'

export type AnswerClient = {
  agent: Agent
  /** Names in lower case. */
  headers: Record<string, string>
  /** Of an access by OAuth 2.0: each request shows one. */
  tokens?: Pick<Tokens, 'get' | 'refused'> | undefined
  /** Of one request, redirects included. */
  timeoutMs: number
  /** Texts that no message may show, which a server may repeat. */
  secrets: () => readonly string[]
  now: () => Date
  sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

/** A request that only reads, whatever its method. */
export type ReadRequest = {
  method: 'GET' | 'POST'
  url: string
  /** The type counts unless the client has a header of its own for it. */
  content?: { body: string; type: string }
}

/** How an answer is read; with `graphql` the errors in it count. */
export type AnswerForm = { xml?: XmlForm | undefined; isGraphql: boolean }

export type ReadAnswer = {
  document: unknown
  /** The records of XML; the document is without them. */
  rows?: SourceRow[]
  /** The Link header. */
  link: string | string[] | undefined
  /** Of the answer, after redirects. */
  url: URL
}

/** A page is held in memory several times over while it is read: as bytes, as text and as records. */
export const maxPageBytes = 32 * 1024 * 1024
const decodedAtOnce = 256 * 1024
const parsedAtOnce = 32 * 1024
const maxAttempts = 4
const unauthorized = 401
/** A server that wants a longer pause than a minute is left until the next poll. */
const pauses: RetryPolicy = {
  baseMs: 1_000,
  floorMs: 100,
  ceilingMs: 60_000,
  isPassingStatus,
}

/**
 * Reads JSON or XML. 408, 409, 423, 425, 429, 5xx, silence and broken connections are tried again, four times in all, with the
 * pause that the server asks for; so is a query of GraphQL that is refused for its cost. Undefined when `isNothing` says so of
 * the answer. Redirects of a GET within the origin are followed. A 401 to an access token is asked again with the next one.
 * Throws SourceError or RequestFailure.
 */
export async function readAnswer(
  client: AnswerClient,
  request: ReadRequest,
  { xml, isGraphql }: AnswerForm,
  isNothing: (answer: GuardedAnswer) => boolean,
  signal: AbortSignal,
): Promise<ReadAnswer | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    const answer = await askPatiently(client, request, signal)
    if (isNothing(answer)) return undefined
    if (answer.status !== 200) {
      const fault = xml && (await soapFaultOf(answer, xml, client.secrets()))
      throw new SourceError(refusalOf(answer, client.secrets(), fault))
    }
    const about = { link: answer.headers.link, url: answer.url }
    if (xml) return { ...(await parseXml(answer, xml, client.secrets())), ...about }
    const document = await parse(answer)
    const errors = isGraphql ? graphqlErrors(document) : undefined
    if (!errors) return { document, ...about }
    if (!errors.isPassing || attempt === maxAttempts) {
      throw new SourceError(`the answer holds errors: ${shown(errors.words, client.secrets())}`)
    }
    await client.sleep(pauses.baseMs * 2 ** (attempt - 1), signal)
  }
}

/**
 * An answer of 200 may hold errors, and data beside them in which something is missing (GraphQL, October 2021, 7.1). Shopify
 * and others refuse a query for its cost in that way.
 */
function graphqlErrors(document: unknown): { words: string; isPassing: boolean } | undefined {
  const errors = isRecord(document) ? document.errors : undefined
  if (!Array.isArray(errors) || errors.length === 0) return undefined
  const list = errors.filter(isRecord)
  const codes = list.map(({ extensions }) => (isRecord(extensions) ? extensions.code : undefined))
  return {
    words: list.map(({ message }) => String(message)).join('; '),
    isPassing: codes.some((code) => code === 'THROTTLED' || code === 'RATE_LIMITED'),
  }
}

function shown(words: string, secrets: readonly string[]): string {
  return hideTexts(words.replace(/[\p{C}\s]+/gu, ' ').trim(), secrets, '[masked]').slice(0, 200)
}

export function isJson(answer: GuardedAnswer): boolean {
  const type = String(answer.headers['content-type'] ?? '')
  return /^application\/([\w.+-]+\+)?json\s*(;|$)/i.test(type.trim())
}

async function askPatiently(
  client: AnswerClient,
  { method, url, content }: ReadRequest,
  signal: AbortSignal,
): Promise<GuardedAnswer> {
  const { agent, headers, tokens, timeoutMs, now, sleep } = client
  let wasRefused = false
  for (let attempt = 1; ; attempt += 1) {
    const token = tokens && (await orAborted(signal, tokenOf(tokens)))
    const outcome = await guardedRequest({
      agent,
      method,
      url,
      headers: {
        ...(content && { 'content-type': content.type }),
        ...headers,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      ...(content && { body: content.body }),
      timeoutMs,
      maxBytes: maxPageBytes,
      redirects: 'same-origin',
      signal,
      now: () => now().getTime(),
    }).catch((error: unknown) => {
      if (error instanceof RequestFailure && isPassing(error)) return error
      throw error
    })
    const isFailure = outcome instanceof RequestFailure
    if (tokens && token !== undefined && !isFailure && outcome.status === unauthorized) {
      tokens.refused(token)
      // Once: a server that takes none must not have one asked for after the other.
      if (!wasRefused) {
        wasRefused = true
        continue
      }
    }
    const decision = decideRetry({
      // Whatever its method, it asks for nothing to be changed.
      method: 'GET',
      hasIdempotencyKey: false,
      status: isFailure ? null : outcome.status,
      failure: isFailure ? (outcome.kind === 'timeout' ? 'timeout' : 'reset') : null,
      attempt,
      maxAttempts,
      retryAfterSeconds: isFailure ? null : outcome.retryAfterSeconds,
      remainingMs: Number.POSITIVE_INFINITY,
      minAttemptMs: 0,
      // A flow has one reader at a time: there is nothing to spread.
      jitter: 1,
      policy: pauses,
    })
    if (decision.retry) await sleep(decision.waitMs, signal)
    else if (isFailure) throw outcome
    else return outcome
  }
}

async function tokenOf(tokens: Pick<Tokens, 'get'>): Promise<string> {
  try {
    return await tokens.get()
  } catch (error) {
    if (error instanceof TokenError || error instanceof TokenBlockedError) {
      throw new SourceError(error.why)
    }
    if (error instanceof RequestFailure) {
      throw new SourceError({ code: 'TOKEN_FAILED', data: { said: error.message } })
    }
    throw error
  }
}

function isPassing({ kind, code }: RequestFailure): boolean {
  // A header that no request can hold will not be held by the next one either.
  return kind === 'timeout' || (kind === 'network' && code !== 'UND_ERR_INVALID_ARG')
}

function refusalOf(
  answer: GuardedAnswer,
  secrets: readonly string[],
  fault: string | undefined,
): string {
  const { status, retryAfterSeconds } = answer
  const isRedirect = status >= 300 && status <= 399
  const told = [
    `HTTP ${status}`,
    describeRefusal(answer, secrets),
    fault,
    isRedirect && '(redirects to another host are not followed)',
    retryAfterSeconds !== null && `(it asks for a pause of ${retryAfterSeconds} s)`,
  ]
  return told.filter(Boolean).join(' ')
}

function charsetOf(answer: GuardedAnswer): string | undefined {
  const type = String(answer.headers['content-type'] ?? '')
  return /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(type)?.[1]
}

/** Throws SourceError: `is not text in utf-8`. */
async function textOf(answer: GuardedAnswer, charset: string): Promise<string> {
  try {
    return await decode(new TextDecoder(charset, { fatal: true }), answer.body)
  } catch {
    throw new SourceError(`is not text in ${charset.slice(0, 40)}`)
  }
}

async function parseXml(
  answer: GuardedAnswer,
  form: XmlForm,
  secrets: readonly string[],
): Promise<{ document: unknown; rows: SourceRow[] }> {
  try {
    return await readXml(answer, form)
  } catch (error) {
    if (!(error instanceof SourceError)) throw error
    throw new SourceError(`the answer ${shown(error.message, secrets)}`)
  }
}

/** SOAP 1.1 tells of a Fault with the status 500, SOAP 1.2 also with 400: the words are what helps. */
async function soapFaultOf(
  answer: GuardedAnswer,
  form: XmlForm,
  secrets: readonly string[],
): Promise<string | undefined> {
  try {
    await readXml(answer, form)
  } catch (error) {
    if (error instanceof SoapFaultError) return shown(error.message, secrets)
    if (!(error instanceof SourceError)) throw error
  }
  return undefined
}

async function readXml(
  answer: GuardedAnswer,
  form: XmlForm,
): Promise<{ document: unknown; rows: SourceRow[] }> {
  if (answer.body.length === 0) throw new SourceError('is empty')
  const text = await textOf(answer, charsetOf(answer) ?? declaredEncoding(answer.body))
  const reader = createXmlReader(form)
  const rows: SourceRow[] = []
  for (let at = 0; at < text.length; at += parsedAtOnce) {
    for (const row of reader.write(text.slice(at, at + parsedAtOnce))) rows.push(row)
    await breathe()
  }
  return { document: reader.end(), rows }
}

async function parse(answer: GuardedAnswer): Promise<unknown> {
  try {
    return await parseJsonInTurns(await textOf(answer, charsetOf(answer) ?? 'utf-8'))
  } catch (error) {
    if (error instanceof JsonLimitError || error instanceof SourceError) {
      throw new SourceError(`the answer ${error.message}`)
    }
    // What JSON.parse says quotes the text, which is somebody's data.
    throw new SourceError(
      answer.body.length === 0 ? 'the answer is empty' : 'the answer is not JSON',
    )
  }
}

/** In pieces, since some encodings of the East take a second for a page. */
async function decode(decoder: InstanceType<typeof TextDecoder>, bytes: Buffer): Promise<string> {
  const pieces: string[] = []
  for (let at = 0; at < bytes.length; at += decodedAtOnce) {
    pieces.push(decoder.decode(bytes.subarray(at, at + decodedAtOnce), { stream: true }))
    await breathe()
  }
  return pieces.join('') + decoder.decode()
}
