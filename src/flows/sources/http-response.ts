import type { Agent } from 'undici'
import { isRecord } from '../../domain/json.ts'
import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import {
  type GuardedAnswer,
  guardedRequest,
  RequestFailure,
} from '../../outbound/guarded-request.ts'
import { isPassingStatus, type RetryPolicy, waitToRepeat } from '../../outbound/retry.ts'
import { orAborted } from '../../outbound/send-attempt.ts'
import { type Reason, withTexts } from '../../texts/reason.ts'
import { describeRefusal } from '../net/http-text.ts'
import { maskSecrets } from '../net/mask-secrets.ts'
import { TokenBlockedError, type Tokens } from '../oauth/access-tokens.ts'
import { TokenError } from '../oauth/token-request.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { JsonLimitError, parseJsonIncrementally } from './json-incremental.ts'
import { declaredEncoding } from './xml-parser.ts'
import { createXmlReader, SoapFaultError, type XmlForm } from './xml-records.ts'

export type AnswerClient = {
  agent: Agent
  /** Header names in lower case. */
  headers: Record<string, string>
  /** OAuth 2.0 tokens; each request sends one. */
  tokens?: Pick<Tokens, 'get' | 'refused'> | undefined
  /** Per request, with its redirects. */
  timeoutMs: number
  /** Texts that a server may repeat and no message may contain. */
  secrets: () => readonly string[]
  now: () => Date
  sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

/** A request that only reads. Its method may be POST. */
export type ReadRequest = {
  method: 'GET' | 'POST'
  url: string
  /** The type applies unless the client sets its own `content-type` header. */
  content?: { body: string; type: string }
}

/** How a response is parsed. With `graphql` its errors are checked. */
export type AnswerForm = { xml?: XmlForm | undefined; isGraphql: boolean }

export type ReadAnswer = {
  document: unknown
  /** The records of an XML response; `document` then has the rest. */
  rows?: SourceRow[]
  /** The Link header. */
  link: string | string[] | undefined
  headers: GuardedAnswer['headers']
  /** Address of the response, after redirects. */
  url: URL
}

/** Reading a page needs several times its size in memory: bytes, text and records. */
const maxPageBytes = 32 * 1024 * 1024
const decodedAtOnce = 256 * 1024
const parsedAtOnce = 32 * 1024
/** Errors of GraphQL that a later request may not have. */
const passingCodes = ['THROTTLED', 'RATE_LIMITED', 'INTERNAL_SERVER_ERROR']
const unauthorized = 401
/**
 * If the server asks for a longer pause than one minute, the poll fails and the next poll tries again. A flow reads with one request
 * at a time, so jitter is useless.
 */
const policy: RetryPolicy = {
  maxAttempts: 4,
  firstMs: 1_000,
  shortestMs: 100,
  longestMs: 60_000,
}

/**
 * Reads JSON or XML. Returns undefined when `isNothing` accepts the response. Follows redirects of a GET within the origin.
 *
 * Retries 408, 409, 423, 425, 429, 5xx, timeouts and broken connections, up to four attempts, with the pause that the server
 * asks for. Also retries a GraphQL query refused for its cost. After a 401 it requests a new access token once.
 *
 * Throws SourceError or RequestFailure.
 */
export async function readAnswer(
  client: AnswerClient,
  request: ReadRequest,
  { xml, isGraphql }: AnswerForm,
  isNothing: (answer: GuardedAnswer) => boolean,
  signal: AbortSignal,
): Promise<ReadAnswer | undefined> {
  const send = createSend(client, request, signal)
  const secrets = client.secrets()
  const refused = async (answer: GuardedAnswer) => {
    const fault = xml && (await soapFaultOf(answer, xml, secrets))
    return new SourceError(refusalOf(answer, secrets, fault))
  }
  const read = async (answer: GuardedAnswer): Promise<Attempt> => {
    if (isNothing(answer)) return { read: undefined }
    if (answer.status !== 200) return { failure: await refused(answer) }
    const { headers, url } = answer
    const about = { link: headers.link, headers, url }
    if (xml) return { read: { ...(await parseXml(answer, xml, secrets)), ...about } }
    const document = await parse(answer)
    const errors = isGraphql ? graphqlErrors(document) : undefined
    if (!errors) return { read: { document, ...about } }
    const said = shown(errors.messages, secrets)
    const failure = new SourceError({ code: 'ANSWER_ERRORS', data: { said } })
    return { failure, ...(errors.isPassing && { again: { retryAfterSeconds: null } }) }
  }
  const attempt = async (): Promise<Attempt> => {
    const outcome = await send()
    if (outcome instanceof RequestFailure) {
      return { failure: outcome, again: { retryAfterSeconds: null } }
    }
    return isPassingStatus(outcome.status) ? { answer: outcome, again: outcome } : read(outcome)
  }
  // `sleep` ends with the signal.
  const pauses = { policy, sleep: (ms: number) => client.sleep(ms, signal) }
  for (let number = 1; ; number += 1) {
    const last = await attempt()
    const { again } = last
    if (again && (await waitToRepeat(number, again.retryAfterSeconds, pauses))) continue
    if ('read' in last) return last.read
    if ('failure' in last) throw last.failure
    if (isNothing(last.answer)) return undefined
    throw await refused(last.answer)
  }
}

type Attempt = { again?: { retryAfterSeconds: number | null } } & (
  | { read: ReadAnswer | undefined }
  /** Not read yet: another attempt may have a better one. */
  | { answer: GuardedAnswer }
  | { failure: Error }
)

/**
 * A GraphQL response with status 200 may have errors beside incomplete data (GraphQL, October 2021, 7.1). Shopify and others
 * report a query that costs too much in this way.
 */
function graphqlErrors(document: unknown): { messages: string; isPassing: boolean } | undefined {
  const errors = isRecord(document) ? document.errors : undefined
  if (!Array.isArray(errors) || errors.length === 0) return undefined
  const list = errors.filter(isRecord)
  const codes = list.map(({ extensions }) => (isRecord(extensions) ? extensions.code : undefined))
  return {
    messages: list.map(({ message }) => String(message)).join('; '),
    isPassing: codes.some((code) => passingCodes.includes(String(code))),
  }
}

function shown(words: string, secrets: readonly string[]): string {
  return maskSecrets(words.replace(/[\p{C}\s]+/gu, ' ').trim(), secrets, '[masked]').slice(0, 200)
}

export function isJson(answer: GuardedAnswer): boolean {
  const type = String(answer.headers['content-type'] ?? '')
  return /^application\/([\w.+-]+\+)?json\s*(;|$)/i.test(type.trim())
}

/** Sends the request. Returns a failure that may pass. After the first 401 it requests a new access token and sends again. */
function createSend(
  client: AnswerClient,
  { method, url, content }: ReadRequest,
  signal: AbortSignal,
): () => Promise<GuardedAnswer | RequestFailure> {
  const { agent, headers, tokens, timeoutMs, now } = client
  // A server that refuses every token must not cause endless token requests.
  let wasRefused = false
  const send = async (): Promise<GuardedAnswer | RequestFailure> => {
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
    const isRefused = !(outcome instanceof RequestFailure) && outcome.status === unauthorized
    if (!tokens || token === undefined || !isRefused) return outcome
    tokens.refused(token)
    if (wasRefused) return outcome
    wasRefused = true
    return send()
  }
  return send
}

async function tokenOf(tokens: Pick<Tokens, 'get'>): Promise<string> {
  try {
    return await tokens.get()
  } catch (error) {
    if (error instanceof TokenError || error instanceof TokenBlockedError) {
      throw new SourceError(error.why)
    }
    if (error instanceof RequestFailure) {
      throw new SourceError({ code: 'TOKEN_FAILED', data: { said: error.why } })
    }
    throw error
  }
}

function isPassing({ kind, code }: RequestFailure): boolean {
  // Another attempt would fail in the same way: the request has an invalid header.
  return kind === 'timeout' || (kind === 'network' && code !== 'UND_ERR_INVALID_ARG')
}

function refusalOf(
  answer: GuardedAnswer,
  secrets: readonly string[],
  fault: Reason | undefined,
): Reason {
  const { status, retryAfterSeconds } = answer
  return {
    code: status >= 300 && status <= 399 ? 'REDIRECTED' : 'ANSWERED',
    data: {
      status,
      said: describeRefusal(answer, secrets) || undefined,
      fault,
      pause: retryAfterSeconds ?? undefined,
    },
  }
}

function charsetOf(answer: GuardedAnswer): string | undefined {
  const type = String(answer.headers['content-type'] ?? '')
  return /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(type)?.[1]
}

/** Throws SourceError, for example `is not text in utf-8`. */
async function textOf(answer: GuardedAnswer, charset: string): Promise<string> {
  try {
    return await decode(new TextDecoder(charset, { fatal: true }), answer.body)
  } catch {
    throw new SourceError({ code: 'NOT_TEXT_IN', data: { charset: charset.slice(0, 40) } })
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
    throw inAnswer(withTexts(error.why, (text) => shown(text, secrets)))
  }
}

/** SOAP 1.1 reports a Fault with status 500, SOAP 1.2 also with 400. The fault text explains more than the status. */
async function soapFaultOf(
  answer: GuardedAnswer,
  form: XmlForm,
  secrets: readonly string[],
): Promise<Reason | undefined> {
  try {
    await readXml(answer, form)
  } catch (error) {
    if (error instanceof SoapFaultError) {
      return withTexts(error.why, (text) => shown(text, secrets))
    }
    if (!(error instanceof SourceError)) throw error
  }
  return undefined
}

async function readXml(
  answer: GuardedAnswer,
  form: XmlForm,
): Promise<{ document: unknown; rows: SourceRow[] }> {
  if (answer.body.length === 0) throw new SourceError({ code: 'EMPTY' })
  const text = await textOf(answer, charsetOf(answer) ?? declaredEncoding(answer.body))
  const reader = createXmlReader(form)
  const rows: SourceRow[] = []
  for (let at = 0; at < text.length; at += parsedAtOnce) {
    for (const row of reader.write(text.slice(at, at + parsedAtOnce))) rows.push(row)
    await yieldToEventLoop()
  }
  return { document: reader.end(), rows }
}

async function parse(answer: GuardedAnswer): Promise<unknown> {
  try {
    return await parseJsonIncrementally(await textOf(answer, charsetOf(answer) ?? 'utf-8'))
  } catch (error) {
    if (error instanceof JsonLimitError || error instanceof SourceError) {
      throw inAnswer(error.why)
    }
    // The message of JSON.parse quotes the text, which may contain personal data.
    throw inAnswer({ code: answer.body.length === 0 ? 'EMPTY' : 'NOT_JSON' })
  }
}

function inAnswer(what: Reason): SourceError {
  return new SourceError({ code: 'IN_ANSWER', data: { what } })
}

/** Decodes in chunks: some East Asian encodings need a second for a page. */
async function decode(decoder: InstanceType<typeof TextDecoder>, bytes: Buffer): Promise<string> {
  const pieces: string[] = []
  for (let at = 0; at < bytes.length; at += decodedAtOnce) {
    pieces.push(decoder.decode(bytes.subarray(at, at + decodedAtOnce), { stream: true }))
    await yieldToEventLoop()
  }
  return pieces.join('') + decoder.decode()
}
