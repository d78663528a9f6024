import type { Change } from '../support/source-copy.ts'
import type { RunEvent } from './scenario.ts'

/**
 * A mistake in the product, put back on purpose: a run must fail with it. `silences` is an event that no longer happens with the
 * mistake, where its absence shows sooner than a violation.
 */
export type PlantedBug = { name: string; changes: readonly Change[]; silences?: RunEvent }

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
    'an earlier read replaces the result of a later read',
    'repositories/flows/flow-items',
    `.whereRef('flow_items.read_number', isLater ? '<=' : '<', 'excluded.read_number'),`,
    `.whereRef('flow_items.read_number', '<>', 'excluded.read_number'),`,
  ),
  bug(
    'the lease is not checked before the first byte',
    'jobs/leader',
    'return () => !own.end.signal.aborted && performance.now() - own.provenMs < proofMs',
    'return () => true',
  ),
  bug(
    'delivery sent under an expired lease not requeued',
    'flows/deliver/retry-deliveries',
    `if (!row || row.state === 'failed' || row.version <= outcome.version) return 'fine'`,
    `if (row) return 'fine'`,
    { silences: 'a delivery sent under an expired lease was requeued' },
  ),
  bug(
    'changes with the same content have the same idempotency key',
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
    'the id of an item that a shop removed stays stored',
    'flows/deliver/save-outcomes',
    'await forgetRemembered(trx, target, outdated)',
    '',
  ),
  bug(
    'an added destination gets only changed items',
    'flows/poll/compare-destinations',
    "if (how === 'added' && !row?.delivered_digest) return { kind: 'sent' }",
    "if (how === 'added' && !row?.delivered_digest) return { kind: 'unchanged' }",
  ),
  bug(
    'a field that is missing in every record does not fail the poll',
    'flows/poll/missing-fields',
    'if (missing.length > 0) throw',
    'if (missing.length < 0) throw',
  ),
  bug(
    'the guard lets all deletes through',
    'flows/poll/deletes',
    'if (atOnce > guard.minItems && percent > guard.maxPercent) {',
    'if (atOnce < 0 && percent > guard.maxPercent) {',
  ),
  bug(
    'a sync of one item stores its hash without a delivery',
    'flows/control/sync-item',
    "await deps.enqueue(trx, runtime, [{ pk, kind: 'upsert', hash, value, change: read, isForced }])",
    '',
  ),
  bug(
    'a file that ends within a line is read as complete',
    'flows/sources/file',
    '    return isIncomplete\n',
    '    return false\n',
  ),
  bug(
    'a readiness marker of an earlier file counts',
    'flows/sources/file-readiness',
    'return marker !== undefined && marker.changedNs >= file.changedNs',
    'return marker !== undefined',
  ),
  bug(
    'an answer for a part of a batch counts for the whole batch',
    'flows/destinations/http-batch',
    `if (list.length === jobs.length)
          return list.map((entry) => resultOf(entry, answer, judge, hide))`,
    `if (list.length > 0)
          return jobs.map((_, at) => resultOf(list[at] ?? true, answer, judge, hide))`,
  ),
  bug(
    'the cursor moves past records that have to be read again',
    'flows/poll/poll',
    'cursor: isWhole ? progress.cursor : progress.from,',
    'cursor: progress.cursor,',
  ),
  bug(
    'a last poll that is in the future after a clock change delays the next one',
    'flows/poll/poll-loop',
    'const isAhead = last !== null && last.getTime() - now.getTime() > deps.intervalMs()',
    'const isAhead = false',
  ),
]
