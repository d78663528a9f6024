import type { Mistake } from './mistake.ts'

/** Flows: sources, polls and the compared items. */
export const polls: readonly Mistake[] = [
  {
    name: 'every process polls by the timer',
    file: 'src/flows/poll/poll-loop.ts',
    find: `    if (!deps.leads() && !isHinted) return sleepUntilWoken(checkMs)
`,
    replace: '',
    noticedBy: { tests: [['test/flows/poll-loop.test.ts']] },
  },
  {
    name: 'a last poll that is in the future after a clock change delays the next one',
    file: 'src/flows/poll/poll-loop.ts',
    find: 'const isAhead = last !== null && last.getTime() - now.getTime() > deps.intervalMs()',
    replace: 'const isAhead = false',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'keep takes the changes of the source too',
    file: 'src/flows/poll/read-and-compare.ts',
    find: "causeRules ? causeOf(item, was, stored, causeRules) : 'source'",
    replace: "causeRules ? 'definition' : 'source'",
    noticedBy: { tests: [['test/flows/definition-model.test.ts']] },
  },
  {
    name: 'a resume answers the question about a changed definition',
    file: 'src/flows/poll/pauses-and-limits.ts',
    find: `    await deletePauses(trx, flows)
    await deleteLimits(trx, flows, { areSpent: true })
    for (const flow of flows) {
`,
    replace: `    await deletePauses(trx, flows)
    await deleteLimits(trx, flows, { areSpent: true })
    for (const flow of flows) {
      const query = trx.selectFrom('flow_state').select('question').where('flow', '=', flow)
      const { question } = await query.executeTakeFirstOrThrow()
      const answered = JSON.stringify({ ...question, answer: 'send' })
      const update = trx.updateTable('flow_state').set({ question: answered })
      if (question?.number) await update.where('flow', '=', flow).execute()
`,
    noticedBy: { tests: [['test/flows/definition-model.test.ts']] },
  },
  {
    name: 'a change of the source is taken for one of the definition',
    file: 'src/flows/poll/poll.ts',
    find: 'const isSameForm = areSameItems || isSameItemForm(runtime, state)',
    replace: 'const isSameForm = isSameItemForm(runtime, state)',
    noticedBy: { tests: [['test/flows/fill-destination.test.ts']] },
  },
  {
    name: 'the cursor moves past records that have to be read again',
    file: 'src/flows/poll/poll.ts',
    find: 'cursor: isWhole ? progress.cursor : progress.from,',
    replace: 'cursor: progress.cursor,',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'an earlier read replaces the result of a later read',
    file: 'src/repositories/flows/flow-items.ts',
    find: ".whereRef('flow_items.read_number', isLater ? '<=' : '<', 'excluded.read_number')",
    replace: ".whereRef('flow_items.read_number', '<>', 'excluded.read_number')",
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'a sync stores what it read although another read has stored the item meanwhile',
    file: 'src/flows/control/sync-item.ts',
    find: '{ read, at, since })',
    replace: '{ read, at })',
    noticedBy: { tests: [['test/flows/read-order.test.ts', 'content that a sync read before']] },
  },
  {
    name: 'an added destination gets only changed items',
    file: 'src/flows/poll/compare-destinations.ts',
    find: "if (how === 'added' && !row?.delivered_digest) return { kind: 'sent' }",
    replace: "if (how === 'added' && !row?.delivered_digest) return { kind: 'unchanged' }",
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'a field that is missing in every record does not fail the poll',
    file: 'src/flows/poll/missing-fields.ts',
    find: 'if (missing.length > 0) throw',
    replace: 'if (missing.length < 0) throw',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'the guard lets all deletes through',
    file: 'src/flows/poll/deletes.ts',
    find: 'if (atOnce > guard.minItems && percent > guard.maxPercent) {',
    replace: 'if (atOnce < 0 && percent > guard.maxPercent) {',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'a sync of one item stores its hash without a delivery',
    file: 'src/flows/control/sync-item.ts',
    find: "await deps.enqueue(trx, runtime, [{ pk, kind: 'upsert', hash, value, change: read, isForced }])",
    replace: '',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'a file that ends within a line is read as complete',
    file: 'src/flows/sources/file.ts',
    find: `    return isIncomplete
`,
    replace: `    return false
`,
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'a readiness marker of an earlier file counts',
    file: 'src/flows/sources/file-readiness.ts',
    find: 'return marker !== undefined && marker.changedNs >= file.changedNs',
    replace: 'return marker !== undefined',
    noticedBy: { 'flow-faults': 'a violation' },
  },
  {
    name: 'hashes in memory count although the database lacks the last poll',
    file: 'src/flows/poll/item-memory.ts',
    find: 'kept.stamp === stamp && ',
    replace: '',
    noticedBy: { tests: [['test/flows/item-memory.test.ts', 'replica']] },
  },
  {
    name: 'hashes in memory count although an item was reset',
    file: 'src/repositories/flows/flow-items.ts',
    find: 'await changeItemsStamp(trx, flow)\n  return Number(result.numUpdatedRows)',
    replace: 'return Number(result.numUpdatedRows)',
    noticedBy: { tests: [['test/flows/item-memory.test.ts', 'reset']] },
  },
  {
    name: 'hashes in memory count in the next term of the leader',
    file: 'src/flows/poll/item-memory.ts',
    find: ' && kept.term === leader.current()',
    replace: '',
    noticedBy: { tests: [['test/flows/item-memory.test.ts', 'term']] },
  },
  {
    name: 'nothing looks for missing items although some are not in memory',
    file: 'src/flows/poll/deletes.ts',
    find: 'isWhole &&= pks.every((pk) => seen.isRemembered(pk))',
    replace: '',
    noticedBy: { tests: [['test/flows/item-memory.test.ts', 'could not be read']] },
  },
  {
    name: 'the cursor passes an item that a sync has changed during the poll',
    file: 'src/flows/poll/poll.ts',
    find: ' && !isOverwritten',
    replace: '',
    noticedBy: { tests: [['test/flows/item-memory.test.ts', 'cursor']] },
  },
]
