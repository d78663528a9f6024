import type { Mistake } from './mistake.ts'

/** Flows: the queue, claims and destinations. */
export const deliveries: readonly Mistake[] = [
  {
    name: 'outcomes are saved although the leader lease was lost',
    file: 'src/flows/deliver/save-outcomes.ts',
    find: 'if (!(await fence.holds(trx))) throw new LeaseLostError()',
    replace: '',
    noticedBy: { tests: [['test/flows/complete-arrived.test.ts']] },
  },
  {
    name: 'the id of an item that a shop removed stays stored',
    file: 'src/flows/deliver/save-outcomes.ts',
    find: 'await forgetRemembered(trx, target, outdated)',
    replace: '',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'a delivery that was abandoned at a stop is finished all the same',
    file: 'src/flows/deliver/delivery-worker.ts',
    find: '!this.#isAbandoned && ',
    replace: '',
    noticedBy: { tests: [['test/flows/queue.test.ts']] },
  },
  {
    name: 'a delivery that is being sent is taken again',
    file: 'src/flows/deliver/delivery-worker.ts',
    find: 'found.filter(({ pk }) => !before.has(pk))',
    replace: 'found',
    noticedBy: { tests: [['test/flows/queue.test.ts']] },
  },
  {
    name: 'nothing bounds how many outcomes a kill loses',
    file: 'src/flows/deliver/delivery-worker.ts',
    find: 'if (this.#outcomes.size() >= this.#mostUnwritten) return',
    replace: '',
    noticedBy: { tests: [['test/flows/queue.test.ts', 'bounded']] },
  },
  {
    name: 'outcomes wait for others although none are on their way',
    file: 'src/flows/deliver/save-outcomes.ts',
    find: ' && options.moreFollow?.()',
    replace: '',
    noticedBy: { tests: [['test/flows/queue.test.ts', 'on their way']] },
  },
  {
    name: 'an attempt that was given up is sent once it has a connection',
    file: 'src/outbound/send-attempt.ts',
    find: 'if (this.#isEnded) controller.abort',
    replace: "if (this.#isEnded && this.#exchange.url.href === '') controller.abort",
    noticedBy: { tests: [['test/outbound/send-attempt.test.ts']] },
  },
  {
    name: 'what archived files gave is not kept where no history has it',
    file: 'src/repositories/flows/item-versions.ts',
    find: 'if (!isReadOnce) return',
    replace: 'if (!isReadOnce || keepsHistory !== undefined) return',
    noticedBy: { tests: [['test/flows/late-requests.test.ts', 'archived files']] },
  },
  {
    name: 'arrived deliveries are saved although the leader lease was lost',
    file: 'src/repositories/flows/due-deliveries.ts',
    find: 'where exists (select from leased)',
    replace: '',
    noticedBy: { tests: [['test/flows/complete-arrived.test.ts']] },
  },
  {
    name: 'the digest of what was delivered is one of the request',
    file: 'src/flows/deliver/retry-rules.ts',
    find: 'digest: bodyDigest(job.body),',
    replace: 'digest: bodyDigest([job.jobKey, job.body]),',
    noticedBy: { tests: [['test/flows/definition-model.test.ts']] },
  },
  {
    name: 'an item that its flow misses keeps its row',
    file: 'src/repositories/flows/claims.ts',
    find: 'item.missed_scans > 0',
    replace: 'item.missed_scans < 0',
    noticedBy: { tests: [['test/flows/shared-rows-model.test.ts']] },
  },
  {
    // The receivers of the models answer too fast for it.
    name: 'a delete is sent before the changes of its read',
    file: 'src/repositories/flows/claims.ts',
    find: "waiting.kind = 'upsert'",
    replace: "waiting.kind = 'none'",
    noticedBy: { tests: [['test/flows/claim-rules.test.ts']] },
  },
  {
    name: 'a delete of a flow that deletes nothing any more takes the row of a living item',
    file: 'src/flows/deliver/destination-worker.ts',
    find: "const deletesFollow = claims && (claims.isFixed ? 'unidentified' : 'all')",
    replace:
      "const deletesFollow = flow.deletes.mode === 'delete' ? claims && (claims.isFixed ? 'unidentified' : 'all') : undefined",
    noticedBy: { tests: [['test/flows/claim-rules.test.ts']] },
  },
  {
    name: 'a delete names an identity that its item does not have any more',
    file: 'src/repositories/flows/delivery-results.ts',
    find: 'then given.body when',
    replace: 'then given.body when false and',
    noticedBy: { tests: [['test/flows/claim-rules.test.ts']] },
  },
  {
    name: 'a delivery sent under an expired lease is not requeued',
    file: 'src/flows/deliver/late-requests.ts',
    find: "if (!outcome || row.state === 'failed' || row.version <= outcome.version) continue",
    replace: 'if (outcome) continue',
    noticedBy: { 'flow-faults': 'a delivery sent under an expired lease was requeued' },
  },
  {
    name: 'changes with the same content have the same idempotency key',
    file: 'src/flows/deliver/attempt.ts',
    find: 'const text = JSON.stringify([flow, destination, identity, pk, change, kind, hash])',
    replace: 'const text = JSON.stringify([flow, destination, identity, pk, kind, hash])',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'an item is created without being looked up',
    file: 'src/flows/destinations/http-lookup.ts',
    find: 'job.remembered ? { found: undefined } : await search(job, send)',
    replace: 'job.remembered ? { found: undefined } : { found: undefined }',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'an answer for a part of a batch counts for the whole batch',
    file: 'src/flows/destinations/http-batch.ts',
    find: `if (list.length === jobs.length)
          return list.map((entry) => resultOf(entry, answer, judge, hide))`,
    replace: `if (list.length > 0)
          return jobs.map((_, at) => resultOf(list[at] ?? true, answer, judge, hide))`,
    noticedBy: { 'flow-faults': 'a violation' },
  },
]
