import { setTimeout as wait } from 'node:timers/promises'
import type { Agent } from 'undici'
import { isRecord } from '../../domain/json.ts'
import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import { addressPolicyOf } from '../../outbound/address-class.ts'
import { createGuardedAgent } from '../../outbound/guarded-agent.ts'
import type { GuardedAnswer } from '../../outbound/guarded-request.ts'
import type { Reason } from '../../texts/reason.ts'
import type { Flow } from '../definition/schema.ts'
import { createKeySet } from '../item/key-set.ts'
import { isHtmlPage } from '../net/http-text.ts'
import { secretsIn, secretsOf } from '../net/mask-secrets.ts'
import { openTokens } from '../oauth/access-tokens.ts'
import {
  invalidRecordReason,
  type Source,
  SourceClosedError,
  SourceError,
  type SourceRow,
} from '../types.ts'
import { fillAddress } from './http-address.ts'
import {
  type BodyValues,
  contentTypeOf,
  hasPlaceholder,
  type RequestBody,
  writeRequestBody,
} from './http-body.ts'
import { type ListEnd, listEnd } from './http-list-end.ts'
import { type PageAddress, type PageWalk, pageWalks, textOfRow } from './http-paging.ts'
import {
  type AnswerClient,
  type AnswerForm,
  isJson,
  type ReadRequest,
  readAnswer,
} from './http-response.ts'
import { recordsOf, valueAtNames, withPlace } from './json-items.ts'
import { inBatches, limitRows, matching } from './record-batches.ts'
import { createKeyReader, hasKey, joinRowKey, rowKey } from './row-key.ts'
import type { SourceContext } from './source-context.ts'
import { describe } from './source-failures.ts'

type HttpDefinition = Extract<Flow['source'], { type: 'http' }>
/** Identifies a failed request: its address as in the flow file. The first page has no number. */
type Place = { method: string; address: string; page?: number | undefined }

const longestConnectMs = 10_000
/** Maximum number of passes over the pages in one poll. */
const mostPasses = 4
/** Maximum number of consecutive pages without a new record. It ends a loop of pages that differ only in their text. */
const maxRepeatedPages = 100
/** With `groupBy` one item may have records on hundreds of pages. */
const maxPagesOfOneItem = 1_000

/**
 * A JSON or XML API, read page by page; a page may have 32 MiB. `{cursor}` in the address or body is the position to read from
 * (`cursor.initial` for a full scan).
 *
 * One item is read at `item.url`, where 404 and 410 mean that it does not exist. Without `item.url` all pages are read.
 *
 * Addresses are checked against `allowPrivateNetwork`. Redirects and links to another host are not followed. Messages show
 * addresses as in the flow file, without the values of references.
 */
export class HttpSource implements Source {
  readonly repeatsKeys: boolean
  readonly #definition: HttpDefinition
  readonly #keyFields: Flow['item']['key']
  readonly #readKey: ReturnType<typeof createKeyReader>
  /** Values of items must not lead out of the address of the connection. */
  readonly #staysBelow: boolean
  readonly #agent: Agent
  readonly #client: AnswerClient
  readonly #startWalk: ReturnType<typeof pageWalks>
  readonly #closing = new AbortController()

  constructor(
    definition: HttpDefinition,
    context: Pick<SourceContext, 'flow' | 'now' | 'createAgent' | 'sleep' | 'grants'>,
  ) {
    const { flow } = context
    const { timeoutMs } = definition.limits
    this.#definition = definition
    this.repeatsKeys = definition.paging.type !== 'none'
    this.#keyFields = flow.item.key
    this.#readKey = createKeyReader(flow.item)
    this.#staysBelow = flow.reach.connections.source !== undefined
    const connectTimeoutMs = Math.min(timeoutMs, longestConnectMs)
    const agent =
      context.createAgent?.() ?? createGuardedAgent({ ...addressPolicyOf(flow), connectTimeoutMs })
    const usedBy = { flow: flow.name, destination: 'source' }
    const tokens =
      definition.auth && openTokens(definition.auth, context.grants, { agent, timeoutMs, usedBy })
    const hidden = hiddenTexts(definition)
    this.#agent = agent
    this.#client = {
      agent,
      tokens,
      headers: headersOf(definition),
      timeoutMs,
      secrets: () => [...hidden, ...(tokens?.secrets() ?? [])],
      now: context.now,
      sleep: context.sleep ?? ((ms, signal) => wait(ms, undefined, { signal })),
    }
    this.#startWalk = pageWalks(definition.paging, {
      hasPlaceholder: (name) => hasPlaceholder(definition.body, name),
      items: definition.items,
    })
  }

  scan({ since, signal: callerSignal, warn }: Parameters<Source['scan']>[0]) {
    const { cursor, limits, paging, url } = this.#definition
    const signal = AbortSignal.any([callerSignal, this.#closing.signal])
    const from = since ?? cursor?.initial
    const values = from === undefined ? {} : { cursor: from }
    const address = fillAddress(url.reveal(), values, this.#staysBelow)
    const walk = () => this.#startWalk(address)
    return limitRows(
      cursor || paging.type === 'none'
        ? this.#settled(walk, values, signal, warn)
        : this.#pages(walk(), values, signal),
      limits.maxRows,
    )
  }

  async readItem({ key, signal: callerSignal }: Parameters<Source['readItem']>[0]) {
    const { item } = this.#definition
    const isItem = (row: SourceRow) => hasKey(row, this.#keyFields, key, this.#readKey)
    if (!item) return await matching(this.scan({ since: null, signal: callerSignal }), isItem)
    const signal = AbortSignal.any([callerSignal, this.#closing.signal])
    try {
      const pk = joinRowKey(key)
      const rows = (await this.#readOne(item, pk, signal)).filter(isItem)
      // The key of an item is in NFC; the source may have it in NFD.
      const other = pk.normalize('NFD')
      if (rows.length > 0 || other === pk) return rows
      return (await this.#readOne(item, other, signal)).filter(isItem)
    } catch (error) {
      throw this.#failure(error, { method: methodOf(item), address: item.url.template }, signal)
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new SourceClosedError())
    await this.#agent.destroy()
  }

  async #readOne(
    item: NonNullable<HttpDefinition['item']>,
    pk: string,
    signal: AbortSignal,
  ): Promise<SourceRow[]> {
    const values = { pk }
    const asked = requestOf(item, fillAddress(item.url.reveal(), values, this.#staysBelow), values)
    const items = item.items ?? (this.#definition.xml && this.#definition.items)
    const answer = await readAnswer(this.#client, asked, this.#form(items), isAbsent, signal)
    if (!answer) return []
    return answer.rows ?? itemRecords(valueAtNames(answer.document, items), items)
  }

  #form(items: string | undefined): AnswerForm {
    const { xml, body } = this.#definition
    return {
      xml: xml && { ...xml, items: items ?? '' },
      isGraphql: body?.graphql !== undefined,
    }
  }

  #failure(error: unknown, place: Place, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason
    return new SourceError(atPlace(place, describe(error, this.#client.secrets())))
  }

  async *#pages(
    walk: PageWalk,
    values: BodyValues,
    signal: AbortSignal,
    onPage = (_hasNext: boolean) => {},
  ): AsyncGenerator<SourceRow[]> {
    const { items, limits, url } = this.#definition
    const method = methodOf(this.#definition)
    const checkRepeats = this.#createRepeatCheck()
    let hadRecords = false
    let read = 0
    let end: ListEnd | undefined
    let at: PageAddress | undefined = walk.first
    for (let page = 1; at !== undefined; page += 1) {
      const place = { method, address: url.template, page: page === 1 ? undefined : page }
      let rows: SourceRow[]
      try {
        const answer = await this.#readPage(at, walk, page, values, signal)
        if (!answer) return requireWhole(end, read)
        rows = answer.rows ?? recordsOf(valueAtNames(answer.document, items), items, hadRecords)
        end = listEnd(answer, items)
        read += rows.length
        hadRecords ||= rows.length > 0
        await checkRepeats(rows)
        const next = await walk.next({ ...answer, rows, end })
        if (next === undefined || next === 'again') requireWhole(end, read, walk, rows)
        if (next === 'again') return
        at = next
        if (rows.length > 0) onPage(at !== undefined)
      } catch (error) {
        throw this.#failure(error, place, signal)
      }
      const toPlaced = withPlace((what) => atPlace(place, what))
      yield* inBatches(rows, limits.fetchSize, toPlaced)
    }
  }

  /** Undefined when the answer says that there is no such page. */
  #readPage(
    at: PageAddress,
    walk: PageWalk,
    page: number,
    values: BodyValues,
    signal: AbortSignal,
  ) {
    const isNothing = (answer: GuardedAnswer) =>
      answer.status === 204 ||
      (answer.status === 404 && page > 1 && walk.endsBy404 && isJson(answer) && !isHtmlPage(answer))
    const asked = requestOf(this.#definition, at.url, { ...at.values, ...values })
    const form = this.#form(this.#definition.items)
    return readAnswer(this.#client, asked, form, isNothing, signal)
  }

  /**
   * Pages by number or offset shift while records change. When a record moves to the end or is deleted, all later records move
   * forward. One may move to a page that was already read. The next poll would not find it, because the cursor has passed it.
   * So several pages are read again until a pass finds no new record.
   */
  async *#settled(
    walk: () => PageWalk,
    values: BodyValues,
    signal: AbortSignal,
    warn: Parameters<Source['scan']>[0]['warn'],
  ): AsyncGenerator<SourceRow[]> {
    const seen = createKeySet()
    // A list of one page is read once.
    let mayRepeat = this.#definition.cursor !== undefined
    for (let pass = 1; ; pass += 1) {
      const way = walk()
      let pageCount = 0
      let hasNew = false
      const onPage = (hasNext: boolean) => {
        pageCount += 1
        mayRepeat ||= hasNext
      }
      for await (const rows of this.#pages(way, values, signal, onPage)) {
        if (!mayRepeat) {
          yield rows
          continue
        }
        const fresh = await newAmong(rows, seen)
        hasNew ||= fresh.length > 0
        if (fresh.length > 0) yield fresh
      }
      if (!way.mayShift || pageCount < 2 || (pass > 1 && !hasNew)) return
      if (pass === mostPasses) {
        warn?.({ why: { code: 'PAGES_CHANGE', data: { times: pass } }, isIncomplete: true })
        return
      }
    }
  }

  /** Creates a check that throws SourceError after too many consecutive pages without a new record. */
  #createRepeatCheck(): (rows: readonly SourceRow[]) => Promise<void> {
    const most = this.#definition.groupBy ? maxPagesOfOneItem : maxRepeatedPages
    const seen = createKeySet()
    let repeatedPages = 0
    return async (rows) => {
      let hasNewRecord = rows.length === 0
      for (const row of rows) {
        if (invalidRecordReason(row) !== undefined) continue
        const key = rowKey(row, this.#keyFields)
        if (key === null || seen.add(key)) hasNewRecord = true
        await yieldToEventLoop()
      }
      repeatedPages = hasNewRecord ? 0 : repeatedPages + 1
      if (repeatedPages >= most) {
        throw new SourceError({ code: 'KNOWN_PAGES', data: { most } })
      }
    }
  }
}

/** The records that no earlier pass had, and those that are refused later. */
async function newAmong(
  rows: readonly SourceRow[],
  seen: ReturnType<typeof createKeySet>,
): Promise<SourceRow[]> {
  const fresh: SourceRow[] = []
  for (const row of rows) {
    if (seen.add(textOfRow(row)) || invalidRecordReason(row) !== undefined) fresh.push(row)
    await yieldToEventLoop()
  }
  return fresh
}

function requestOf(
  given: { method?: 'GET' | 'POST' | undefined; body?: RequestBody | undefined },
  url: string,
  values: BodyValues,
): ReadRequest {
  return {
    method: methodOf(given),
    url,
    ...(given.body && {
      content: { body: writeRequestBody(given.body, values), type: contentTypeOf(given.body) },
    }),
  }
}

function atPlace(place: Place, what: Reason): Reason {
  return { code: 'AT_ADDRESS', data: { ...place, what } }
}

/**
 * Throws SourceError when the list says that it is longer than what was read. An empty page is the end, although some servers
 * write a link into it.
 */
function requireWhole(
  end: ListEnd | undefined,
  read: number,
  walk?: PageWalk,
  lastRows: readonly SourceRow[] = [],
): void {
  const { total, hasMore = false } = end ?? {}
  if (total !== undefined && total > read) {
    throw new SourceError({ code: 'LIST_LONGER', data: { total, read } })
  }
  if (hasMore && walk && !walk.endsBy404 && lastRows.length > 0)
    throw new SourceError({ code: 'LIST_HAS_MORE' })
}

function methodOf({
  method,
  body,
}: {
  method?: 'GET' | 'POST' | undefined
  body?: RequestBody | undefined
}) {
  return method ?? (body ? 'POST' : 'GET')
}

/** A page of a proxy with 404 says nothing about the item. */
function isAbsent(answer: GuardedAnswer): boolean {
  const { status } = answer
  return status === 204 || ((status === 404 || status === 410) && !isHtmlPage(answer))
}

/** An item may be the response itself or in a list. Some servers return null when it does not exist. */
function itemRecords(value: unknown, path: string | undefined): SourceRow[] {
  if (value === null) return []
  return isRecord(value) ? [value] : recordsOf(value, path)
}

function headersOf(definition: HttpDefinition): Record<string, string> {
  const given = Object.entries(definition.headers).map(([name, value]) => [
    name.toLowerCase(),
    value.reveal(),
  ])
  return {
    accept: definition.xml ? 'text/xml, application/xml' : 'application/json',
    'user-agent': 'tillbridge',
    ...Object.fromEntries(given),
  }
}

/** Secrets of a request that a server may repeat and no message may contain. */
function hiddenTexts({ url, item, headers, body }: HttpDefinition): string[] {
  const inAddresses = [url, ...(item ? [item.url] : [])].flatMap((one) =>
    secretsOf({ url: one, headers }),
  )
  const inBodies = secretsIn([body, item?.body]).flatMap((secret) => secret.referenced())
  return [...inAddresses, ...inBodies]
}
