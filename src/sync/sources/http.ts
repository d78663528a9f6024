import { setTimeout as wait } from 'node:timers/promises'
import { createGuardedAgent } from '../../outbound/guarded-agent.ts'
import { type GuardedAnswer, RequestFailure } from '../../outbound/guarded-request.ts'
import type { Flow } from '../definition/schema.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { secretsOf } from '../net/hidden-texts.ts'
import { openTokens } from '../oauth/tokens.ts'
import { breathe } from '../poll/breather.ts'
import { createKeySet } from '../poll/key-set.ts'
import {
  type Source,
  SourceClosedError,
  SourceError,
  type SourceRow,
  whyNoRecord,
} from '../types.ts'
import type { SourceContext } from './context.ts'
import { atMost, inBatches, matching } from './counted.ts'
import { describe, sourceFailure } from './failures.ts'
import { checkAddress, fillAddress } from './http-address.ts'
import {
  type AnswerClient,
  type AnswerForm,
  isJson,
  type ReadRequest,
  readAnswer,
} from './http-answer.ts'
import {
  type BodyValues,
  bodySecrets,
  contentTypeOf,
  hasPlaceholder,
  type RequestBody,
  writeRequestBody,
} from './http-body.ts'
import { type PageAddress, type PageWalk, pageWalks, textOfRow } from './http-paging.ts'
import { isRecord, placed, recordsOf, valueAt } from './json-items.ts'
import { hasKey, joinKey, rowKey } from './row-key.ts'

type HttpDefinition = Extract<Flow['source'], { type: 'http' }>

const longestConnectMs = 10_000
/** How often several pages are read for one poll. */
const mostPasses = 4
/** Pages that bring nothing but records that came before: a server that never ends, and words them anew each time. */
const maxKnownPages = 100
/** With `groupBy` the records of one item may fill some hundred pages. */
const maxPagesOfOneItem = 1_000

/**
 * An API of JSON or XML that is read page by page; a page may have 32 MiB. `{cursor}` in the address or the body is where to
 * read from (`cursor.initial` for a read of everything). One item is read at `item.url`, where 404 and 410 mean that there is none,
 * or found by reading all. Addresses are held against `allowPrivateNetwork`; neither a redirect nor a link is followed to
 * another host. Messages show addresses as the flow file has them, with references in place of secrets.
 */
export function openHttpSource(
  definition: HttpDefinition,
  context: Pick<SourceContext, 'flow' | 'now' | 'createAgent' | 'sleep' | 'grants'>,
): Source {
  const { limits, item, cursor } = definition
  const keyFields = context.flow.item.key
  const closing = new AbortController()
  const agent =
    context.createAgent?.() ??
    createGuardedAgent({
      allowPrivateNetwork: context.flow.allowPrivateNetwork,
      connectTimeoutMs: Math.min(limits.timeoutMs, longestConnectMs),
    })
  const { timeoutMs } = limits
  const usedBy = { flow: context.flow.name, destination: 'source' }
  const tokens =
    definition.auth && openTokens(definition.auth, context.grants, { agent, timeoutMs, usedBy })
  const hidden = hiddenTexts(definition)
  const client: AnswerClient = {
    agent,
    tokens,
    headers: headersOf(definition),
    timeoutMs,
    secrets: () => [...hidden, ...(tokens?.secrets() ?? [])],
    now: context.now,
    sleep: context.sleep ?? ((ms, signal) => wait(ms, undefined, { signal })),
  }
  checkAddress(definition.url.reveal(), cursor ? ['cursor'] : [])
  if (item) checkAddress(item.url.reveal(), ['pk'])
  const startWalk = walksOf(definition)
  const isGraphql = definition.body?.graphql !== undefined

  const request = (
    given: { method?: 'GET' | 'POST' | undefined; body?: RequestBody | undefined },
    url: string,
    values: BodyValues,
  ): ReadRequest => ({
    method: methodOf(given),
    url,
    ...(given.body && {
      content: { body: writeRequestBody(given.body, values), type: contentTypeOf(given.body) },
    }),
  })
  const form = (items: string | undefined): AnswerForm => ({
    xml: definition.xml && { ...definition.xml, items: items ?? '' },
    isGraphql,
  })

  const placeOf = (method: string, address: string) => `http source: ${method} ${address}:`
  const failure = (error: unknown, method: string, address: string, signal: AbortSignal) => {
    const what = error instanceof RequestFailure ? error.message : describe(error, client.secrets())
    return signal.aborted
      ? sourceFailure(error, signal, () => what)
      : new SourceError(`${placeOf(method, address)} ${what}`)
  }

  /** Throws SourceError when too many pages follow each other whose records have all come before. */
  const watchForNews = () => {
    const most = definition.groupBy ? maxPagesOfOneItem : maxKnownPages
    const seen = createKeySet()
    let knownPages = 0
    return async (rows: readonly SourceRow[]) => {
      let hasNews = rows.length === 0
      for (const row of rows) {
        if (whyNoRecord(row) !== undefined) continue
        const key = rowKey(row, keyFields)
        if (key === null || seen.add(key)) hasNews = true
        await breathe()
      }
      knownPages = hasNews ? 0 : knownPages + 1
      if (knownPages >= most) {
        throw new SourceError(
          `${most} pages in a row without a new record: does the server know the parameter?`,
        )
      }
    }
  }

  async function* pages(
    walk: PageWalk,
    values: BodyValues,
    signal: AbortSignal,
    onPage = () => {},
  ): AsyncGenerator<SourceRow[]> {
    const checkNews = watchForNews()
    const method = methodOf(definition)
    const { template } = definition.url
    let hadRecords = false
    let at: PageAddress | undefined = walk.first
    for (let page = 1; at !== undefined; page += 1) {
      const address = page === 1 ? template : `${template} (page ${page})`
      const isNothing = (answer: GuardedAnswer) =>
        answer.status === 204 ||
        (answer.status === 404 && page > 1 && walk.endsBy404 && isJson(answer))
      let rows: SourceRow[]
      try {
        const asked = request(definition, at.url, { ...at.values, ...values })
        const answer = await readAnswer(client, asked, form(definition.items), isNothing, signal)
        if (!answer) return
        const { items } = definition
        rows = answer.rows ?? recordsOf(valueAt(answer.document, items), items, hadRecords)
        hadRecords ||= rows.length > 0
        if (rows.length > 0) onPage()
        await checkNews(rows)
        const next = await walk.next({ ...answer, rows })
        if (next === 'again') return
        at = next
      } catch (error) {
        throw failure(error, method, address, signal)
      }
      const place = placeOf(method, address)
      yield* inBatches(rows, limits.fetchSize, (row) => placed(row, place))
    }
  }

  /**
   * Pages by number or offset shift while records change: one that moves to the end, or is deleted, takes all behind it one place
   * forward, over the border of a page that was read. The cursor would pass them for good, so several pages are read again, until
   * they show no record that is new.
   */
  async function* settled(
    walk: () => PageWalk,
    values: BodyValues,
    signal: AbortSignal,
    warn: Parameters<Source['scan']>[0]['warn'],
  ): AsyncGenerator<SourceRow[]> {
    const seen = createKeySet()
    for (let pass = 1; ; pass += 1) {
      const way = walk()
      let pageCount = 0
      let hasNew = false
      const onPage = () => {
        pageCount += 1
      }
      for await (const rows of pages(way, values, signal, onPage)) {
        const fresh: SourceRow[] = []
        for (const row of rows) {
          if (seen.add(textOfRow(row)) || whyNoRecord(row) !== undefined) fresh.push(row)
          await breathe()
        }
        hasNew ||= fresh.length > 0
        if (fresh.length > 0) yield fresh
      }
      if (!way.mayShift || pageCount < 2 || (pass > 1 && !hasNew)) return
      if (pass === mostPasses) {
        warn?.({
          message: `the records go on changing while their pages are read; after ${pass} times the next poll reads on`,
          isIncomplete: true,
        })
        return
      }
    }
  }

  const scan: Source['scan'] = ({ since, signal: callerSignal, warn }) => {
    const signal = AbortSignal.any([callerSignal, closing.signal])
    const from = since ?? cursor?.initial
    const values = from === undefined ? {} : { cursor: from }
    const url = fillAddress(definition.url.reveal(), values)
    const walk = () => startWalk(url)
    return atMost(
      cursor ? settled(walk, values, signal, warn) : pages(walk(), values, signal),
      limits.maxRows,
    )
  }

  return {
    repeatsKeys: definition.paging.type !== 'none',
    scan,
    async readItem({ key, signal: callerSignal }) {
      const isItem = (row: SourceRow) => hasKey(row, keyFields, key)
      if (!item) return await matching(scan({ since: null, signal: callerSignal }), isItem)
      const signal = AbortSignal.any([callerSignal, closing.signal])
      try {
        const values = { pk: joinKey(key) }
        const asked = request(item, fillAddress(item.url.reveal(), values), values)
        const items = item.items ?? (definition.xml && definition.items)
        const answer = await readAnswer(client, asked, form(items), isAbsent, signal)
        if (!answer) return []
        const rows = answer.rows ?? itemRecords(valueAt(answer.document, items), items)
        return rows.filter(isItem)
      } catch (error) {
        throw failure(error, methodOf(item), item.url.template, signal)
      }
    },
    async close() {
      closing.abort(new SourceClosedError())
      await agent.destroy()
    },
  }
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

function isAbsent({ status }: GuardedAnswer): boolean {
  return status === 204 || status === 404 || status === 410
}

/** An item is answered as itself or as a list; null is how some say that there is none. */
function itemRecords(value: unknown, path: string | undefined): SourceRow[] {
  if (value === null) return []
  return isRecord(value) ? [value] : recordsOf(value, path)
}

function walksOf(definition: HttpDefinition): (url: string) => PageWalk {
  try {
    return pageWalks(definition.paging, {
      hasPlaceholder: (name) => hasPlaceholder(definition.body, name),
      items: definition.items,
    })
  } catch (error) {
    if (error instanceof ExpressionError) throw new SourceError(`paging.next: ${error.message}`)
    throw error
  }
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

/** What a server may repeat of a request and no message may show. */
function hiddenTexts({ url, item, headers, body }: HttpDefinition): string[] {
  const inAddresses = [url, ...(item ? [item.url] : [])].flatMap((one) =>
    secretsOf({ url: one, headers }),
  )
  return [...inAddresses, ...bodySecrets(body), ...bodySecrets(item?.body)]
}
