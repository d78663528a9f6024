import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { type Action, type ActionDeps, createTime } from './action.ts'
import { definitionOf } from './definition.ts'
import { createApprovals, createMissingField } from './source-loss.ts'
import type { TestFlow } from './test-flow.ts'

export type Actions = { open(): string[]; stop(): Promise<void> }

/** Runs the actions of all flows: ERPs name changed keys, operators approve deletes, destinations are filled. */
export function startActions(deps: ActionDeps, testFlows: readonly TestFlow[]): Actions {
  let isStopped = false
  const all: { name: string; action: Action }[] = []
  const loops = testFlows.map(async (testFlow) => {
    const actions = actionsOf(deps, testFlow)
    all.push(...actions.map((action) => ({ name: testFlow.name, action })))
    for (let round = 1; !isStopped; round += 1) {
      await wait(testFlow.chance.whole(`deeds ${round}`, 60, 240))
      for (const action of actions) if (!isStopped) await action.step()
    }
  })
  return {
    open: () =>
      all.flatMap(({ name, action }) => {
        const what = action.open()
        return what === undefined ? [] : [`${name}: ${what}`]
      }),
    async stop() {
      isStopped = true
      await Promise.all(loops)
    },
  }
}

function actionsOf(deps: ActionDeps, testFlow: TestFlow): Action[] {
  const { scenario } = testFlow
  return [
    createItemReads(deps, testFlow),
    ...(scenario.namesKeys ? [createKeyRequests(deps, testFlow)] : []),
    ...(scenario.losesField ? [createMissingField(deps, testFlow)] : []),
    ...(scenario.isGuarded ? [createApprovals(deps, testFlow)] : []),
    ...(scenario.second ? [createFill(deps, testFlow)] : []),
  ]
}

type ItemAnswer = {
  seen: { hash: string } | null
  destinations: { name: string; in_sync: boolean | null }[]
  history: { content: { rev?: number | string } | null }
}

/** Reads the state of an item and reports to the ledger when the service says that it is in sync. */
function createItemReads({ control, isFaultFree }: ActionDeps, testFlow: TestFlow): Action {
  let reads = 0
  return {
    async step() {
      if (isFaultFree()) return
      reads += 1
      const pk =
        testFlow.ids[testFlow.chance.whole(`looked at ${reads}`, 0, testFlow.ids.length - 1)]
      const path = `/flow/${testFlow.name}/items/${pk}`
      const [before, after] = [await control('GET', path), await control('GET', path)]
      if (before?.status !== 200 || after?.status !== 200 || pk === undefined) return
      const [one, next] = [before.body as ItemAnswer, after.body as ItemAnswer]
      const isReportedInSync = [one, next].every(
        ({ destinations }) => destinations.find(({ name }) => name === 'web')?.in_sync === true,
      )
      // The service reads the parts of an answer one after the other. They belong together only if the hash did not change.
      if (!isReportedInSync || one.seen?.hash !== next.seen?.hash) return
      const { content } = one.history
      if (content?.rev === undefined) return
      testFlow.countEvent('an item was reported in sync')
      testFlow.web.ledger.reportedInSync(pk, Number(content.rev))
    },
    open: () => undefined,
  }
}

/** An ERP that changes an item and names its key. It changes that item again only after an answer. */
function createKeyRequests({ control, isFaultFree }: ActionDeps, testFlow: TestFlow): Action {
  const { sourceHistory, scenario, chance } = testFlow
  const mustArrive = scenario.polledBy === 'keys'
  let named = 0
  let pendingKey: string | undefined
  return {
    async step() {
      if (pendingKey === undefined) {
        if (isFaultFree()) return
        named += 1
        const pk = testFlow.ids[chance.whole(`named ${named}`, 0, testFlow.ids.length - 1)] ?? ''
        if (testFlow.locked.has(pk)) return
        pendingKey = pk
        testFlow.locked.add(pk)
        sourceHistory.put(pk, `${testFlow.name} named ${named}`)
      }
      const answer = await control('POST', `/sync/${testFlow.name}/${pendingKey}`)
      const isRead = answer?.status === 200 && (answer.body as { found: boolean }).found
      if (isRead) testFlow.countEvent('a request named the key of a changed item')
      else if (mustArrive) {
        testFlow.countEvent('a request for a key was to be repeated')
        return
      }
      testFlow.locked.delete(pendingKey)
      pendingKey = undefined
    },
    open: () =>
      pendingKey === undefined ? undefined : `the service has not read the change of ${pendingKey}`,
  }
}

/** A second target that is emptied and filled again, or that is added while the flow runs. */
function createFill(deps: ActionDeps, testFlow: TestFlow): Action {
  const { control, endpoints, flowsDir } = deps
  const { scenario, second } = testFlow
  const isTime = createTime(deps, testFlow, 'fill')
  let isBegun = false
  let isDone = false
  // Also for an added one: an attempt whose answer is lost is repeated.
  if (second) second.ledger.maySendOnceMore = true

  const request = async () => {
    if (scenario.second === 'there') {
      const answer = await control('POST', `/resync/${testFlow.name}?destination=second`)
      if (answer?.status !== 200) return
      testFlow.countEvent('a destination was filled again')
    } else {
      const answer = await control('POST', '/flows/reload')
      if (answer?.status !== 200) return
      testFlow.countEvent('a destination was added and filled')
    }
    isDone = true
  }

  return {
    async step() {
      if (!isBegun && isTime()) {
        isBegun = true
        testFlow.isSecondThere = true
        if (scenario.second === 'there') second?.shop.empty()
        else {
          const text = JSON.stringify(definitionOf(testFlow, endpoints, true))
          const file = join(flowsDir, `${testFlow.name}.flow.yaml`)
          // Under another name first: a process that starts meanwhile must not read half of it.
          await writeFile(`${file}.new`, text)
          await rename(`${file}.new`, file)
        }
      }
      if (isBegun && !isDone) await request()
    },
    open: () => (isBegun && !isDone ? 'its fill has no answer' : undefined),
  }
}
