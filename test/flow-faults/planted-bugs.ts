import type { Change } from '../support/source-copy.ts'
import type { Happening } from './kinds.ts'

/**
 * A mistake in the product, put back on purpose: the judge must see it. `silences` is what the product says of itself no more
 * with it, where that is missed sooner than what goes wrong is seen at a target.
 */
export type PlantedBug = { name: string; changes: readonly Change[]; silences?: Happening }

const bug = (
  name: string,
  file: string,
  find: string,
  replace: string,
  more?: Pick<PlantedBug, 'silences'>,
): PlantedBug => ({
  name,
  changes: [{ file: `src/${file}.ts`, find, replace }],
  ...more,
})

export const plantedBugs: readonly PlantedBug[] = [
  bug(
    'a read that began earlier replaces what a later one has shown',
    'repositories/flows/flow-items',
    `.whereRef('flow_items.read_number', isLater ? '<=' : '<', 'excluded.read_number'),`,
    `.whereRef('flow_items.read_number', '<>', 'excluded.read_number'),`,
  ),
  bug(
    'the claim is not proven before the first byte',
    'jobs/leader',
    'return () => !own.end.signal.aborted && performance.now() - own.provenMs < proofMs',
    'return () => true',
  ),
  bug(
    'delivery sent under an expired lease not requeued',
    'flows/deliver/send-again',
    `if (!row || row.state === 'failed' || row.version <= outcome.version) return 'fine'`,
    `if (row) return 'fine'`,
    { silences: 'what was sent under a lost claim was owed again' },
  ),
  bug(
    'the idempotency key is one for each content',
    'flows/deliver/attempt',
    'const text = JSON.stringify([flow, destination, identity, pk, change, kind, hash])',
    'const text = JSON.stringify([flow, destination, identity, pk, kind, hash])',
  ),
  bug(
    'an item is created without being looked up',
    'flows/destinations/http-lookup',
    'job.remembered ? { found: undefined } : await search(job, send)',
    'job.remembered ? { found: undefined } : { found: undefined }',
  ),
  bug(
    'what is gone at a shop is remembered all the same',
    'flows/deliver/save-outcomes',
    'await forgetRemembered(trx, target, outdated)',
    '',
  ),
  bug(
    'a destination that is filled gets what changes and nothing else',
    'flows/poll/poll-writer',
    'const missing = has ? rest.filter(({ pk }) => !has.has(pk)) : []',
    'const missing: Item[] = []',
  ),
  bug(
    'a field that is missing in every record fails nothing',
    'flows/poll/missing-fields',
    'if (missing.length > 0) throw',
    'if (missing.length < 0) throw',
  ),
  bug(
    'the guard holds no deletes',
    'flows/poll/deletes',
    'if (atOnce > guard.minItems && percent > guard.maxPercent) {',
    'if (atOnce < 0 && percent > guard.maxPercent) {',
  ),
  bug(
    'what a sync of one item finds is stored and not owed',
    'flows/engine/sync-item',
    "await deps.enqueue(trx, runtime, [{ pk, kind: 'upsert', hash, value, change: read, isForced }])",
    '',
  ),
  bug(
    'a file that ends within a line is taken as it is',
    'flows/sources/file',
    '    return isIncomplete\n',
    '    return false\n',
  ),
  bug(
    'a marker of an earlier file counts',
    'flows/sources/file-readiness',
    'return marker !== undefined && marker.changedNs >= file.changedNs',
    'return marker !== undefined',
  ),
  bug(
    'an answer that tells of some of a batch is taken for all',
    'flows/destinations/http-batch',
    `if (list.length === jobs.length)
          return list.map((entry) => resultOf(entry, answer, judge, hide))`,
    `if (list.length > 0)
          return jobs.map((_, at) => resultOf(list[at] ?? true, answer, judge, hide))`,
  ),
  bug(
    'the position moves on past what has to be read again',
    'flows/poll/poll',
    'cursor: isWhole ? progress.cursor : progress.from,',
    'cursor: progress.cursor,',
  ),
  bug(
    'a last poll of before the clock was set back counts as one to come',
    'flows/poll/poll-loop',
    'const isAhead = last !== null && last.getTime() - now.getTime() > deps.intervalMs()',
    'const isAhead = false',
  ),
]
