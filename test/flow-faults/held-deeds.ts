import { createTime, type Deed, type DeedDeps } from './deed.ts'
import type { Lane } from './lane.ts'

/** A field that the flow's mapping uses is gone from every record for a while: its polls fail, and send nothing. */
export function createMissingField(deps: DeedDeps, lane: Lane): Deed {
  const { control, isCalm } = deps
  const { chance } = lane
  const isTime = createTime(deps, lane, 'missing field')
  let phase: 'before' | 'missing' | 'over' = 'before'
  let waits = 0
  lane.web.ledger.forbids = ({ kind, body }) =>
    kind !== 'delete' && body?.text === undefined ? 'its source has no such field' : undefined

  return {
    async step() {
      if (phase === 'before' && isTime()) {
        phase = 'missing'
        waits = chance.whole('the field is missing', 0, 20)
        for (const id of lane.ids) lane.locked.add(id)
        lane.looks = 'without text'
      }
      if (phase !== 'missing') return
      const answer = await control('GET', `/errors?flow=${lane.name}`)
      if (answer?.status !== 200) return
      const isSeen = (answer.body as { why: { code: string } | null }[]).some(
        ({ why }) => why?.code === 'FIELDS_MISSING',
      )
      if (!isSeen && !isCalm()) return
      waits -= 1
      if (waits > 0 && !isCalm()) return
      if (isSeen) lane.note('a field was missing, and back')
      phase = 'over'
      lane.looks = 'as ever'
      lane.locked.clear()
    },
    open: () => (phase === 'missing' ? 'its source lacks a field' : undefined),
  }
}

type DeletesAnswer = { held: { items: number } | null; missing: number; pks: string[] }

/** Most of a source vanishes at once; somebody approves that, first of one item or of all. */
export function createApprovals(deps: DeedDeps, lane: Lane): Deed {
  const { control, isCalm } = deps
  const { truth, chance, web } = lane
  const isTime = createTime(deps, lane, 'removals')
  /** By key the revision of its removal. */
  const gone = new Map<string, number | undefined>()
  let steps = 0
  let isBegun = false
  let isHeldSeen = false
  let waits = 0
  web.ledger.forbids = ({ pk, kind }) =>
    kind === 'delete' && gone.has(pk) && web.ledger.removalTold(pk) === gone.get(pk)
      ? 'the guard holds it and nobody approved it'
      : undefined

  const begin = () => {
    const present = truth.items().flatMap(({ id }) => (lane.locked.has(id) ? [] : [id]))
    if (present.length < 6) return
    isBegun = true
    waits = chance.whole('approval waits', 0, 15)
    for (const id of present.slice(1)) {
      const { rev = 0 } = truth.get(id) ?? {}
      lane.locked.add(id)
      truth.remove(id)
      // One that was gone before and back may still be on its way.
      gone.set(id, truth.removalAfter(id, rev))
    }
  }
  const approve = async (body: object, may: () => void) => {
    may()
    const answer = await control('POST', `/flow/${lane.name}/deletes/approve`, body)
    return answer?.status === 200
  }
  const letAll = () => {
    for (const id of gone.keys()) lane.locked.delete(id)
    gone.clear()
  }

  return {
    async step() {
      steps += 1
      if (!isBegun && isTime()) begin()
      const answer = await control('GET', `/flow/${lane.name}/deletes`)
      if (answer?.status !== 200) return
      const { held, pks } = answer.body as DeletesAnswer
      if (held === null) return
      if (gone.size > 0 && !isHeldSeen && pks.filter((pk) => gone.has(pk)).length < 3) return
      if (gone.size > 0) isHeldSeen = true
      waits -= 1
      if (waits > 0 && !isCalm()) return
      const [one] = pks.filter((pk) => gone.has(pk))
      if (one !== undefined && chance.maybe(`one ${steps}`, 0.3)) {
        const isDone = await approve({ pk: one }, () => gone.delete(one))
        if (isDone) lane.note('the delete of one item was approved')
        lane.locked.delete(one)
        return
      }
      const isMass = gone.size > 0
      if ((await approve({}, letAll)) && isMass) lane.note('deletes were held, and approved')
    },
    open: () => (gone.size > 0 ? 'nobody has approved its deletes' : undefined),
  }
}
