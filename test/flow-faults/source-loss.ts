import { type Action, type ActionDeps, createTime } from './action.ts'
import type { TestFlow } from './test-flow.ts'

/** A field that the mapping uses is missing in every record for a while: polls fail and send nothing. */
export function createMissingField(deps: ActionDeps, testFlow: TestFlow): Action {
  const { control, isFaultFree } = deps
  const { chance } = testFlow
  const isTime = createTime(deps, testFlow, 'missing field')
  let phase: 'before' | 'missing' | 'over' = 'before'
  let waits = 0
  testFlow.web.ledger.forbids = ({ kind, body }) =>
    kind !== 'delete' && body?.text === undefined ? 'its source has no such field' : undefined

  /** What the service has never read whole it cannot miss. */
  const hasPolled = async () => {
    const answer = await control('GET', '/flows')
    const { flows = [] } = (answer?.body ?? {}) as {
      flows?: { name: string; last_success_at: string | null }[]
    }
    return flows.some(({ name, last_success_at: at }) => name === testFlow.name && at !== null)
  }

  return {
    async step() {
      if (phase === 'before' && isTime() && (await hasPolled())) {
        phase = 'missing'
        waits = chance.whole('the field is missing', 0, 20)
        for (const id of testFlow.ids) testFlow.locked.add(id)
        testFlow.recordForm = 'without text'
      }
      if (phase !== 'missing') return
      const answer = await control('GET', `/errors?flow=${testFlow.name}`)
      if (answer?.status !== 200) return
      const isSeen = (answer.body as { why: { code: string } | null }[]).some(
        ({ why }) => why?.code === 'FIELDS_MISSING',
      )
      if (!isSeen && !isFaultFree()) return
      waits -= 1
      if (waits > 0 && !isFaultFree()) return
      if (isSeen) testFlow.countEvent('a field was missing and came back')
      phase = 'over'
      testFlow.recordForm = 'complete'
      testFlow.locked.clear()
    },
    open: () => (phase === 'missing' ? 'its source lacks a field' : undefined),
  }
}

type QuestionAnswer = {
  state: string
  about: string
  number: number
  missing_items: { pk: string }[]
}

/** Most items of a source are removed at once. An operator approves the deletes, of one item or of all. */
export function createApprovals(deps: ActionDeps, testFlow: TestFlow): Action {
  const { control, isFaultFree } = deps
  const { sourceHistory, chance, web } = testFlow
  const isTime = createTime(deps, testFlow, 'removals')
  /** The keys whose delete needs approval, with the revision of the removal. */
  const unapproved = new Map<string, number | undefined>()
  let steps = 0
  let isBegun = false
  let isGuardSeen = false
  let waits = 0
  web.ledger.forbids = ({ pk, kind }) =>
    kind === 'delete' &&
    unapproved.has(pk) &&
    web.ledger.removalOfNextDelete(pk) === unapproved.get(pk)
      ? 'its delete needs approval and has none'
      : undefined

  const begin = () => {
    const present = sourceHistory.items().flatMap(({ id }) => (testFlow.locked.has(id) ? [] : [id]))
    if (present.length < 6) return
    isBegun = true
    waits = chance.whole('approval waits', 0, 15)
    for (const id of present.slice(1)) {
      const { rev = 0 } = sourceHistory.get(id) ?? {}
      testFlow.locked.add(id)
      sourceHistory.remove(id)
      // The delete of an earlier removal may still be on its way.
      unapproved.set(id, sourceHistory.removalAfter(id, rev))
    }
  }
  const approve = async (body: object, allow: () => void) => {
    allow()
    const given = { answer: 'send', ...body }
    const answer = await control('POST', `/flow/${testFlow.name}/question`, given)
    return answer?.status === 200
  }
  const allowAll = () => {
    for (const id of unapproved.keys()) testFlow.locked.delete(id)
    unapproved.clear()
  }

  return {
    async step() {
      steps += 1
      if (!isBegun && isTime()) begin()
      const answer = await control('GET', `/flow/${testFlow.name}/question`)
      if (answer?.status !== 200) return
      const { state, about, number, missing_items: missing } = answer.body as QuestionAnswer
      if (state !== 'asked' || about !== 'deletes') return
      const pks = missing.map(({ pk }) => pk)
      if (unapproved.size > 0 && !isGuardSeen && pks.filter((pk) => unapproved.has(pk)).length < 3)
        return
      if (unapproved.size > 0) isGuardSeen = true
      waits -= 1
      if (waits > 0 && !isFaultFree()) return
      const [one] = pks.filter((pk) => unapproved.has(pk))
      if (one !== undefined && chance.maybe(`one ${steps}`, 0.3)) {
        const isDone = await approve({ number, pks: [one] }, () => unapproved.delete(one))
        if (isDone) testFlow.countEvent('the delete of one item was approved')
        testFlow.locked.delete(one)
        return
      }
      const isMass = unapproved.size > 0
      if ((await approve({ number }, allowAll)) && isMass)
        testFlow.countEvent('deletes waited for approval and were approved')
    },
    open: () => (unapproved.size > 0 ? 'its deletes wait for an answer' : undefined),
  }
}
