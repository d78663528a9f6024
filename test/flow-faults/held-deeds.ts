import { createTime, type Deed, type DeedDeps } from './deed.ts'
import type { Lane } from './lane.ts'

/** So many milliseconds after somebody saw that a flow is held nothing of it is under way any more. */
const underWayMs = 3_000

/** A source that does not look as it did; somebody mends it, or lets it through. */
export function createDrift(deps: DeedDeps, lane: Lane): Deed {
  const { control, isCalm } = deps
  const { truth, chance, play } = lane
  const textOf = lane.textOf
  const isTime = createTime(deps, lane, 'drift')
  const held = createHeldWatch(lane)
  let phase: 'before' | 'drifted' | 'over' = 'before'
  let waits = 0
  let isAsked = false

  const begin = () => {
    phase = 'drifted'
    waits = chance.whole('drift lasts', 0, 20)
    for (const id of lane.ids) lane.locked.add(id)
    if (play.drift === 'a column is gone') {
      lane.looks = 'without text'
      return
    }
    const isNumber = play.drift === 'another type'
    const wrong = (change: number) => (isNumber ? change : `wrong ${change}`)
    for (const [at, id] of lane.ids.entries()) truth.put(id, wrong(at))
    if (isNumber) lane.textOf = wrong
    lane.web.ledger.forbids = ({ body }) =>
      isWrong(body?.text) ? 'nobody has let it through' : held.forbids()
  }

  const end = () => {
    phase = 'over'
    lane.locked.clear()
    if (play.drift === 'too many changes') lane.textOf = textOf
  }
  const goOn = () => {
    if (play.drift === 'another type') lane.note('another type was held, and approved')
    else lane.note('too many changes were held, and approved')
    end()
  }

  return {
    async step() {
      if (phase === 'before' && isTime()) begin()
      const answer = await control('GET', `/flow/${lane.name}/drift`)
      if (answer?.status !== 200) return
      const found = (answer.body as { held: { read: number; approved_at: string | null } | null })
        .held
      held.saw(found !== null)
      if (phase === 'drifted' && lane.looks === 'without text') {
        if (found === null && !isCalm()) return
        waits -= 1
        if (waits > 0 && !isCalm()) return
        if (found !== null) lane.note('a column was gone, and back')
        held.mayGoOn()
        lane.looks = 'as ever'
        end()
        return
      }
      // An approval whose answer got lost was taken all the same.
      if (phase === 'drifted' && isAsked && found === null) goOn()
      if (found === null || found.approved_at !== null) return
      waits -= 1
      if (waits > 0 && !isCalm()) return
      // Also what was no more than many changes after a time without polls.
      held.mayGoOn()
      if (phase === 'drifted') {
        isAsked = true
        lane.web.ledger.forbids = undefined
      }
      const approved = await control('POST', `/flow/${lane.name}/drift/approve`, {
        read: found.read,
      })
      if (phase === 'drifted' && approved !== undefined && approved.status < 300) goOn()
    },
    open: () => (phase === 'drifted' ? 'its source does not look as it did' : undefined),
  }
}

/** Watches that nothing arrives of a flow that is held. */
function createHeldWatch({ web }: Lane) {
  let closedAt: number | undefined
  const forbids = () =>
    closedAt !== undefined && performance.now() > closedAt ? 'the flow is held' : undefined
  web.ledger.forbids = forbids
  return {
    forbids,
    saw(isHeld: boolean) {
      if (!isHeld) closedAt = undefined
      else closedAt ??= performance.now() + underWayMs
    },
    mayGoOn() {
      closedAt = Number.POSITIVE_INFINITY
    },
  }
}

function isWrong(text: string | number | undefined): boolean {
  return typeof text === 'number' || text?.startsWith('wrong') === true
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
