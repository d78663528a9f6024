import type { Mistakes } from './mistakes.ts'

const definitions = [['test/flows/definition-model.test.ts']] as const
const sharedRows = [['test/flows/shared-rows-model.test.ts']] as const

/** What the models of random histories must notice. */
export const flowModels: readonly Mistakes[] = [
  {
    file: 'src/flows/deliver/retry-rules.ts',
    tests: definitions,
    made: {
      'the digest of what was delivered is one of the request': [
        'digest: bodyDigest(job.body),',
        'digest: bodyDigest([job.jobKey, job.body]),',
      ],
    },
  },
  {
    file: 'src/flows/poll/read-and-compare.ts',
    tests: definitions,
    made: {
      'keep takes the changes of the source too': [
        "causeRules ? causeOf(item, was, stored, causeRules) : 'source'",
        "causeRules ? 'definition' : 'source'",
      ],
    },
  },
  {
    file: 'src/flows/control/pauses-and-limits.ts',
    tests: definitions,
    made: {
      'a resume answers the question about a changed definition': [
        `    await deletePauses(trx, flows)
    await deleteLimits(trx, flows, { areSpent: true })
    for (const flow of flows) {
`,
        `    await deletePauses(trx, flows)
    await deleteLimits(trx, flows, { areSpent: true })
    for (const flow of flows) {
      const query = trx.selectFrom('flow_state').select('question').where('flow', '=', flow)
      const { question } = await query.executeTakeFirstOrThrow()
      const answered = JSON.stringify({ ...question, answer: 'send' })
      const update = trx.updateTable('flow_state').set({ question: answered })
      if (question?.number) await update.where('flow', '=', flow).execute()
`,
      ],
    },
  },
  {
    file: 'src/repositories/flows/claims.ts',
    tests: sharedRows,
    made: {
      'an item that its flow misses keeps its row': [
        'item.missed_scans > 0',
        'item.missed_scans < 0',
      ],
    },
  },
  {
    // The receivers of the models answer too fast for it.
    file: 'src/repositories/flows/claims.ts',
    tests: [['test/flows/claim-rules.test.ts']],
    made: {
      'a delete is sent before the changes of its read': [
        "waiting.kind = 'upsert'",
        "waiting.kind = 'none'",
      ],
    },
  },
  {
    file: 'src/flows/deliver/destination-worker.ts',
    tests: [['test/flows/claim-rules.test.ts']],
    made: {
      'a delete of a flow that deletes nothing any more takes the row of a living item': [
        "const deletesFollow = claims && (claims.isFixed ? 'unidentified' : 'all')",
        "const deletesFollow = flow.deletes.mode === 'delete' ? claims && (claims.isFixed ? 'unidentified' : 'all') : undefined",
      ],
    },
  },
  {
    file: 'src/repositories/flows/delivery-results.ts',
    tests: [['test/flows/claim-rules.test.ts']],
    made: {
      'a delete names an identity that its item does not have any more': [
        'then given.body when',
        'then given.body when false and',
      ],
    },
  },
  {
    file: 'src/flows/poll/poll.ts',
    tests: [['test/flows/fill-destination.test.ts']],
    made: {
      'a change of the source is taken for one of the definition': [
        'const isSameForm = areSameItems || isSameItemForm(runtime, state)',
        'const isSameForm = isSameItemForm(runtime, state)',
      ],
    },
  },
]
