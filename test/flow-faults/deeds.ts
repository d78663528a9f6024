import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { createTime, type Deed, type DeedDeps } from './deed.ts'
import { definitionOf } from './definition.ts'
import { createApprovals, createMissingField } from './held-deeds.ts'
import type { Lane } from './lane.ts'

export type Deeds = { open(): string[]; stop(): Promise<void> }

/** Has ERPs name what changed, operators approve, and destinations filled, beside all that goes wrong. */
export function startDeeds(deps: DeedDeps, lanes: readonly Lane[]): Deeds {
  let isStopped = false
  const all: { name: string; deed: Deed }[] = []
  const loops = lanes.map(async (lane) => {
    const deeds = deedsOf(deps, lane)
    all.push(...deeds.map((deed) => ({ name: lane.name, deed })))
    for (let round = 1; !isStopped; round += 1) {
      await wait(lane.chance.whole(`deeds ${round}`, 60, 240))
      for (const deed of deeds) if (!isStopped) await deed.step()
    }
  })
  return {
    open: () =>
      all.flatMap(({ name, deed }) => {
        const what = deed.open()
        return what === undefined ? [] : [`${name}: ${what}`]
      }),
    async stop() {
      isStopped = true
      await Promise.all(loops)
    },
  }
}

function deedsOf(deps: DeedDeps, lane: Lane): Deed[] {
  const { play } = lane
  return [
    createLook(deps, lane),
    ...(play.isNamed ? [createNamings(deps, lane)] : []),
    ...(play.losesField ? [createMissingField(deps, lane)] : []),
    ...(play.isGuarded ? [createApprovals(deps, lane)] : []),
    ...(play.second ? [createFill(deps, lane)] : []),
  ]
}

type ItemAnswer = {
  seen: { hash: string } | null
  destinations: { name: string; in_sync: boolean | null }[]
  history: { content: { rev?: number | string } | null }
}

/** Somebody looks where an item is, and believes what he is told. */
function createLook({ control, isCalm }: DeedDeps, lane: Lane): Deed {
  let looks = 0
  return {
    async step() {
      if (isCalm()) return
      looks += 1
      const pk = lane.ids[lane.chance.whole(`looked at ${looks}`, 0, lane.ids.length - 1)]
      const path = `/flow/${lane.name}/items/${pk}`
      const [before, after] = [await control('GET', path), await control('GET', path)]
      if (before?.status !== 200 || after?.status !== 200 || pk === undefined) return
      const [one, next] = [before.body as ItemAnswer, after.body as ItemAnswer]
      const isSaid = [one, next].every(
        ({ destinations }) => destinations.find(({ name }) => name === 'web')?.in_sync === true,
      )
      // An answer is read bit by bit: its content is of what was seen when that is the same before and after.
      if (!isSaid || one.seen?.hash !== next.seen?.hash) return
      const { content } = one.history
      if (content?.rev === undefined) return
      lane.note('an item was said to be in sync')
      lane.web.ledger.saidInSync(pk, Number(content.rev))
    },
    open: () => undefined,
  }
}

/** An ERP that names the key of what it changed, and changes nothing more of that item until it has an answer or has waited for long. */
function createNamings({ control, isCalm }: DeedDeps, lane: Lane): Deed {
  const { truth, play, chance } = lane
  const mustArrive = play.polledBy === 'names'
  let named = 0
  let owed: string | undefined
  return {
    async step() {
      if (owed === undefined) {
        if (isCalm()) return
        named += 1
        const pk = lane.ids[chance.whole(`named ${named}`, 0, lane.ids.length - 1)] ?? ''
        if (lane.locked.has(pk)) return
        owed = pk
        lane.locked.add(pk)
        truth.put(pk, `${lane.name} named ${named}`)
      }
      const answer = await control('POST', `/sync/${lane.name}/${owed}`)
      const isRead = answer?.status === 200 && (answer.body as { found: boolean }).found
      if (isRead) lane.note('the key of a changed item was named')
      else if (mustArrive) {
        lane.note('a key was to be named again')
        return
      }
      lane.locked.delete(owed)
      owed = undefined
    },
    open: () => (owed === undefined ? undefined : `the change of ${owed} is not read`),
  }
}

/** A second target that is emptied and filled again, or that is added while all else goes on. */
function createFill(deps: DeedDeps, lane: Lane): Deed {
  const { control, places, flowsDir } = deps
  const { play, second } = lane
  const isTime = createTime(deps, lane, 'fill')
  let isBegun = false
  let isDone = false
  // Also an added one: what is synced between the reload and the first poll by the new definition is owed to it, and filled.
  if (second) second.ledger.maySendOnceMore = true

  const ask = async () => {
    if (play.second === 'there') {
      const answer = await control('POST', `/resync/${lane.name}?destination=second`)
      if (answer?.status !== 200) return
      lane.note('a destination was filled again')
    } else {
      const answer = await control('POST', '/flows/reload')
      if (answer?.status !== 200) return
      lane.note('a destination was added and filled')
    }
    isDone = true
  }

  return {
    async step() {
      if (!isBegun && isTime()) {
        isBegun = true
        lane.isSecondThere = true
        if (play.second === 'there') second?.shop.empty()
        else {
          const text = JSON.stringify(definitionOf(lane, places, true))
          await writeFile(join(flowsDir, `${lane.name}.flow.yaml`), text)
        }
      }
      if (isBegun && !isDone) await ask()
    },
    open: () => (isBegun && !isDone ? 'nobody has answered for its fill' : undefined),
  }
}
