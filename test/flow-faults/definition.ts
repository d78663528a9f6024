import { join } from 'node:path'
import type { TestFlow } from './test-flow.ts'

const attemptTimeoutMs = 300
/** Long enough for the answer to a creation, also on a busy machine: a repeated creation could make the item twice. */
const createTimeoutMs = 1_500

export type Endpoints = { url: string; filesDir: string }

/** The flow file of a flow under test, with its second destination if `withSecond`. */
export function definitionOf(
  testFlow: TestFlow,
  endpoints: Endpoints,
  withSecond: boolean,
): object {
  const { name, scenario, chance } = testFlow
  const { polledBy, withDeletes, isGuarded } = scenario
  return {
    version: 1,
    name,
    // Only requests that name keys poll such a flow.
    pollInterval: polledBy === 'keys' ? '24h' : '1s',
    ...(polledBy === 'schedule' && { schedule: { cron: '* * * * *' } }),
    allowPrivateNetwork: true,
    source: sourceOf(testFlow, endpoints),
    item: { key: 'id' },
    deletes: {
      mode: withDeletes ? 'delete' : 'ignore',
      guard: isGuarded
        ? { emptySource: 'refuse', maxPercent: 40, minItems: 1 }
        : { emptySource: 'allow', maxPercent: 100, minItems: 0 },
    },
    destinations: [
      { name: 'web', ...targetOf(testFlow, `${endpoints.url}/${name}/web`), ...common(testFlow) },
      ...(withSecond
        ? [
            {
              name: 'second',
              ...byKeys(`${endpoints.url}/${name}/second`, testFlow),
              ...common(testFlow),
            },
          ]
        : []),
    ],
    // Without a history the service reads an item again that a request under an expired lease may have overtaken, or its row has it.
    queue: { keepHistory: chance.maybe('history', 0.6) ? '30d' : '0s' },
  }
}

/** The folder with the files of a flow. */
export function folderOf({ name }: TestFlow, { filesDir }: Endpoints): string {
  return join(filesDir, name)
}

function sourceOf(testFlow: TestFlow, endpoints: Endpoints): object {
  const { name, scenario, chance } = testFlow
  const limits = {
    // A few records do not show that a field is missing.
    fetchSize: scenario.losesField ? 100 : chance.whole('fetch size', 2, 8),
    timeout: '2s',
  }
  switch (scenario.source) {
    case 'a file':
    case 'files of changes': {
      const isIncremental = scenario.source === 'files of changes'
      return {
        type: 'file',
        path: join(folderOf(testFlow, endpoints), isIncremental ? 'in-*.csv' : 'all.csv'),
        format: 'csv',
        settle: chance.pick('settle', ['0s', '100ms']),
        ...(isIncremental && { after: 'archive' }),
        ...(scenario.withMarker && { ready: '{stem}.ok' }),
        limits: { fetchSize: limits.fetchSize },
      }
    }
    case 'a table':
      return {
        type: 'sql',
        driver: 'postgres',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the flow file's own placeholder
        url: '${env:ERP_URL}',
        query: `select id, rev, text from ${tableOf(testFlow)}`,
        itemQuery: `select id, rev, text from ${tableOf(testFlow)} where id = :pk`,
        limits: { fetchSize: limits.fetchSize },
      }
    default: {
      const isIncremental = scenario.source === 'a list of changes'
      return {
        type: 'http',
        url: `${endpoints.url}/${name}/source${isIncremental ? '?since={cursor}' : ''}`,
        item: { url: `${endpoints.url}/${name}/item/{pk}` },
        ...(isIncremental && { cursor: { field: 'rev', initial: '0' }, fullScanEvery: '1s' }),
        limits,
      }
    }
  }
}

export function tableOf({ name }: TestFlow): string {
  return `erp_${name.replaceAll('-', '_')}`
}

function common({ scenario, chance }: TestFlow): object {
  return {
    ...bodyOf(scenario),
    answers: [
      { status: [409], when: 'body.code = "busy"', is: 'retry' },
      { status: [422], when: 'body.code = "deleted"', is: 'gone' },
    ],
    concurrency: chance.whole('concurrency', 1, 6),
    retry: { attempts: 50, initial: '100ms', factor: 1, max: '200ms' },
    breaker: chance.maybe('breaker', 0.3) && { failures: 4, within: '2s', openFor: '1s' },
  }
}

/** The values of a CSV file are texts. */
function bodyOf({ source, losesField }: TestFlow['scenario']): object {
  const isFile = source.includes('file')
  // A mapping also sends an item without the field.
  if (losesField) {
    return { map: `{ "id": id, "rev": ${isFile ? '$number(rev)' : 'rev'}, "text": text }` }
  }
  return {
    fields: { id: 'id', rev: isFile ? { from: 'rev', type: 'integer' } : 'rev', text: 'text' },
  }
}

/** Names the process that sent a request. Batches have no such header: all of theirs are the same. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: the flow file's own placeholder
const headers = { 'x-process': '${env:CHILD}' }

function byKeys(url: string, { scenario }: TestFlow): object {
  return {
    type: 'http',
    request: { method: 'PUT', url: `${url}/items/{pk}`, headers },
    ...(scenario.withDeletes && { delete: { url: `${url}/items/{pk}`, headers } }),
    timeout: `${attemptTimeoutMs}ms`,
  }
}

function targetOf(testFlow: TestFlow, url: string): object {
  const { scenario, chance } = testFlow
  const size = chance.whole('batch size', 2, 6)
  switch (scenario.target) {
    case 'keys':
      return byKeys(url, testFlow)
    case 'own ids':
      return {
        type: 'http',
        create: { url: `${url}/rows` },
        find: { url: `${url}/rows?sku={pk}`, remember: { id: '$[sku = $pk].id' } },
        request: { method: 'PUT', url: `${url}/rows/{remembered.id}` },
        ...(scenario.withDeletes && { delete: { url: `${url}/rows/{remembered.id}` } }),
        remember: { id: 'made[sku = $pk].id' },
        timeout: `${createTimeoutMs}ms`,
      }
    case 'batches':
      return {
        ...byKeys(url, testFlow),
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
        ...(scenario.withDeletes && { delete: { url: `${url}/skus/{pk}` } }),
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
