import { join } from 'node:path'
import type { Lane } from './lane.ts'

const attemptTimeoutMs = 300
/** What may make something twice has the time to be heard, also on a busy machine. */
const createTimeoutMs = 1_500

export type Places = { url: string; filesDir: string }

/** The flow file of a lane, with its second destination once that is `filled`. */
export function definitionOf(lane: Lane, places: Places, withSecond: boolean): object {
  const { name, play, chance } = lane
  const { polledBy, withDeletes, isGuarded } = play
  return {
    version: 1,
    name,
    // Nothing but its own way gets such a flow polled.
    pollInterval: polledBy === 'names' ? '24h' : '1s',
    ...(polledBy === 'schedule' && { schedule: { cron: '* * * * *' } }),
    allowPrivateNetwork: true,
    source: sourceOf(lane, places),
    item: { key: 'id' },
    deletes: {
      mode: withDeletes ? 'delete' : 'ignore',
      guard: isGuarded
        ? { emptySource: 'refuse', maxPercent: 40, minItems: 1 }
        : { emptySource: 'allow', maxPercent: 100, minItems: 0 },
    },
    destinations: [
      { name: 'web', ...targetOf(lane, `${places.url}/${name}/web`), ...common(lane) },
      ...(withSecond
        ? [{ name: 'second', ...byKeys(`${places.url}/${name}/second`, lane), ...common(lane) }]
        : []),
    ],
    // Without a history what a lost claim may have overtaken is read anew.
    queue: { keepHistory: chance.maybe('history', 0.6) ? '30d' : '0s' },
  }
}

/** Where the items of a lane of files are. */
export function folderOf({ name }: Lane, { filesDir }: Places): string {
  return join(filesDir, name)
}

function sourceOf(lane: Lane, places: Places): object {
  const { name, play, chance } = lane
  const limits = {
    // Few records at a time do not tell that a field is missing.
    fetchSize: play.losesField ? 100 : chance.whole('fetch size', 2, 8),
    timeout: '2s',
  }
  switch (play.source) {
    case 'a file':
    case 'files of news': {
      const isNews = play.source === 'files of news'
      return {
        type: 'file',
        path: join(folderOf(lane, places), isNews ? 'in-*.csv' : 'all.csv'),
        format: 'csv',
        settle: chance.pick('settle', ['0s', '100ms']),
        ...(isNews && { after: 'archive' }),
        ...(play.withMarker && { ready: '{stem}.ok' }),
        limits: { fetchSize: limits.fetchSize },
      }
    }
    case 'a table':
      return {
        type: 'sql',
        driver: 'postgres',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the flow file's own placeholder
        url: '${env:ERP_URL}',
        query: `select id, rev, text from ${tableOf(lane)}`,
        itemQuery: `select id, rev, text from ${tableOf(lane)} where id = :pk`,
        limits: { fetchSize: limits.fetchSize },
      }
    default: {
      const isNews = play.source === 'a list of what is new'
      return {
        type: 'http',
        url: `${places.url}/${name}/source${isNews ? '?since={cursor}' : ''}`,
        item: { url: `${places.url}/${name}/item/{pk}` },
        ...(isNews && { cursor: { field: 'rev', initial: '0' }, fullScanEvery: '1s' }),
        limits,
      }
    }
  }
}

export function tableOf({ name }: Lane): string {
  return `erp_${name.replaceAll('-', '_')}`
}

function common({ play, chance }: Lane): object {
  return {
    ...bodyOf(play),
    answers: [
      { status: [409], when: 'body.code = "busy"', is: 'retry' },
      { status: [422], when: 'body.code = "deleted"', is: 'gone' },
    ],
    concurrency: chance.whole('concurrency', 1, 6),
    retry: { attempts: 50, initial: '100ms', factor: 1, max: '200ms' },
    breaker: chance.maybe('breaker', 0.3) && { failures: 4, within: '2s', openFor: '1s' },
  }
}

/** A file knows texts only. */
function bodyOf({ source, losesField }: Lane['play']): object {
  const isFile = source.includes('file')
  // A mapping sends also what it finds nothing for.
  if (losesField) {
    return { map: `{ "id": id, "rev": ${isFile ? '$number(rev)' : 'rev'}, "text": text }` }
  }
  return {
    fields: { id: 'id', rev: isFile ? { from: 'rev', type: 'integer' } : 'rev', text: 'text' },
  }
}

/** Tells whoever looks at requests which process sent one. Not of batches, where all of them are alike. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: the flow file's own placeholder
const headers = { 'x-process': '${env:CHILD}' }

function byKeys(url: string, { play }: Lane): object {
  return {
    type: 'http',
    request: { method: 'PUT', url: `${url}/items/{pk}`, headers },
    ...(play.withDeletes && { delete: { url: `${url}/items/{pk}`, headers } }),
    timeout: `${attemptTimeoutMs}ms`,
  }
}

function targetOf(lane: Lane, url: string): object {
  const { play, chance } = lane
  const size = chance.whole('batch size', 2, 6)
  switch (play.target) {
    case 'keys':
      return byKeys(url, lane)
    case 'own ids':
      return {
        type: 'http',
        create: { url: `${url}/rows` },
        find: { url: `${url}/rows?sku={pk}`, remember: { id: '$[sku = $pk].id' } },
        request: { method: 'PUT', url: `${url}/rows/{remembered.id}` },
        ...(play.withDeletes && { delete: { url: `${url}/rows/{remembered.id}` } }),
        remember: { id: 'made[sku = $pk].id' },
        timeout: `${createTimeoutMs}ms`,
      }
    case 'batches':
      return {
        ...byKeys(url, lane),
        batch: {
          size,
          request: { url: `${url}/batch` },
          body: '{ "items": [items], "pks": [pks], "keys": [jobKeys] }',
          answers: 'body.results',
        },
      }
    default:
      return {
        type: 'http',
        request: { method: 'POST', url: `${url}/upserts` },
        ...(play.withDeletes && { delete: { url: `${url}/skus/{pk}` } }),
        remember: { id: 'id' },
        batch: {
          size,
          body: '{ "items": [items], "pks": [pks], "keys": [jobKeys], "known": [remembered] }',
          answers: 'body.results',
        },
        timeout: `${createTimeoutMs}ms`,
      }
  }
}
