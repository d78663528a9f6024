import { setTimeout as wait } from 'node:timers/promises'
import type { Flow } from '../definition/schema.ts'
import type { Secret } from '../definition/secret.ts'
import { secretsOf } from '../destinations/http-excerpt.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { createGuardedAgent } from '../net/guard.ts'
import { type GuardedAnswer, RequestFailure } from '../net/request.ts'
import { createKeySet } from '../poll/key-set.ts'
import { type Source, SourceClosedError, SourceError, type SourceRow } from '../types.ts'
import type { SourceContext } from './context.ts'
import { atMost, inBatches, matching } from './counted.ts'
import { describe, sourceFailure } from './failures.ts'
import { checkAddress, fillAddress } from './http-address.ts'
import { getJson, isJson, type JsonClient } from './http-json.ts'
import { type PageWalk, pageWalks } from './http-paging.ts'
import { isRecord, recordsOf, valueAt } from './json-items.ts'
import { hasKey, joinKey, rowKey } from './row-key.ts'

type HttpDefinition = Extract<Flow['source'], { type: 'http' }>

const longestConnectMs = 10_000
/** Pages that bring nothing but records that came before: a server that never ends, and words them anew each time. */
const maxKnownPages = 100
/** With `groupBy` the records of one item may fill some hundred pages. */
const maxPagesOfOneItem = 1_000

/**
 * A JSON API that is read page by page; a page may have 32 MiB. `{cursor}` in the address is where to read from
 * (`cursor.initial` for a read of everything). One item is read at `item.url`, where 404 and 410 mean that there is none,
 * or found by reading all. Addresses are held against `allowPrivateNetwork`; neither a redirect nor a link is followed to
 * another host. Messages show addresses as the flow file has them, with references in place of secrets.
 */
export function openHttpSource(
  definition: HttpDefinition,
  context: Pick<SourceContext, 'flow' | 'now' | 'createAgent' | 'sleep'>,
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
  const client: JsonClient = {
    agent,
    headers: headersOf(definition),
    timeoutMs: limits.timeoutMs,
    secrets: hiddenTexts(definition),
    now: context.now,
    sleep: context.sleep ?? ((ms, signal) => wait(ms, undefined, { signal })),
  }
  checkAddress(definition.url.reveal(), cursor ? ['cursor'] : [])
  if (item) checkAddress(item.url.reveal(), ['pk'])
  const startWalk = walksOf(definition)

  const failure = (error: unknown, place: string, signal: AbortSignal) => {
    const what = error instanceof RequestFailure ? error.message : describe(error, client.secrets)
    return signal.aborted
      ? sourceFailure(error, signal, () => what)
      : new SourceError(`http source: GET ${place}: ${what}`)
  }

  /** Throws SourceError when too many pages follow each other whose records have all come before. */
  const watchForNews = () => {
    const most = definition.groupBy ? maxPagesOfOneItem : maxKnownPages
    const seen = createKeySet()
    let knownPages = 0
    return (rows: readonly SourceRow[]) => {
      const keys = rows.map((row) => rowKey(row, keyFields))
      const news = keys.filter((key) => key === null || seen.add(key))
      knownPages = rows.length > 0 && news.length === 0 ? knownPages + 1 : 0
      if (knownPages >= most) {
        throw new SourceError(
          `${most} pages in a row without a new record: does the server know the parameter?`,
        )
      }
    }
  }

  async function* pages(walk: PageWalk, signal: AbortSignal): AsyncGenerator<SourceRow[]> {
    const checkNews = watchForNews()
    let url: string | undefined = walk.first
    for (let page = 1; url !== undefined; page += 1) {
      const isNothing = (answer: GuardedAnswer) =>
        answer.status === 204 ||
        (answer.status === 404 && page > 1 && walk.endsBy404 && isJson(answer))
      let rows: SourceRow[]
      try {
        const answer = await getJson(client, url, isNothing, signal)
        if (!answer) return
        rows = recordsOf(valueAt(answer.document, definition.items), definition.items)
        checkNews(rows)
        url = await walk.next({ ...answer, rows })
      } catch (error) {
        const place = definition.url.template
        throw failure(error, page === 1 ? place : `${place} (page ${page})`, signal)
      }
      yield* inBatches(rows, limits.fetchSize)
    }
  }

  const scan: Source['scan'] = ({ since, signal: callerSignal }) => {
    const signal = AbortSignal.any([callerSignal, closing.signal])
    const from = since ?? cursor?.initial
    const url = fillAddress(definition.url.reveal(), from === undefined ? {} : { cursor: from })
    return atMost(pages(startWalk(url), signal), limits.maxRows)
  }

  return {
    scan,
    async readItem({ key, signal: callerSignal }) {
      const isItem = (row: SourceRow) => hasKey(row, keyFields, key)
      if (!item) return await matching(scan({ since: null, signal: callerSignal }), isItem)
      const signal = AbortSignal.any([callerSignal, closing.signal])
      try {
        const url = fillAddress(item.url.reveal(), { pk: joinKey(key) })
        const answer = await getJson(client, url, isAbsent, signal)
        if (!answer) return []
        return itemRecords(valueAt(answer.document, item.items), item.items).filter(isItem)
      } catch (error) {
        throw failure(error, item.url.template, signal)
      }
    },
    async close() {
      closing.abort(new SourceClosedError())
      await agent.destroy()
    },
  }
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
    return pageWalks(definition.paging)
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
  return { accept: 'application/json', 'user-agent': 'tillbridge', ...Object.fromEntries(given) }
}

/** What a server may repeat of a request and no message may show. */
function hiddenTexts(definition: HttpDefinition): string[] {
  const given = Object.entries(definition.headers)
  const headers = Object.fromEntries(given.map(([name, value]) => [name, value.reveal()]))
  const addresses = [definition.url, ...(definition.item ? [definition.item.url] : [])]
  return addresses.flatMap((url) => [
    ...secretsOf({ url: url.reveal(), headers }),
    ...referencedParts(url),
  ])
}

/** Parts of an address that come from a reference; the template has them not. */
function referencedParts(url: Secret): string[] {
  return url
    .reveal()
    .split(/[/?&=#]/)
    .filter((part) => part.length >= 8 && !url.template.includes(part))
    .flatMap((part) => [part, decoded(part)])
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
