import { type Chance, createChance } from './chance.ts'
import { Ledger } from './ledger.ts'
import { drawScenario, type RunEvent, type Scenario } from './scenario.ts'
import { createShop, type Shop } from './shop.ts'
import { SourceHistory, type SourceItem } from './source-history.ts'

/** The most items of a flow; their keys are i0, i1 and so on. */
export const mostItems = 14

/** A target of a flow: a record of its requests, and the shop behind it where that gives its own ids. */
export type Receiver = {
  ledger: Ledger
  shop: Shop
  /** The keys that it has applied, for a target that applies each key once; undefined for one that does not store keys. */
  done: Set<string> | undefined
  requests: number
}

/** One flow between a source that changes and targets with faults, everything decided by its seed. */
export type TestFlow = {
  name: string
  scenario: Scenario
  chance: Chance
  sourceHistory: SourceHistory
  /** The main target; `second` is another one in some scenarios. */
  web: Receiver
  second: Receiver | undefined
  /** Whether the definition has the second target now. */
  isSecondThere: boolean
  ids: readonly string[]
  /** Keys that one action uses: nothing else changes them meanwhile. */
  locked: Set<string>
  /** Whether the source returns all fields now. */
  recordForm: 'complete' | 'without text'
  reads: number
  countEvent(what: RunEvent): void
  /**
   * Changes an item of the source. As `progress` grows from 0 to 1, more and more items no longer change: a later change cannot
   * hide a lost one.
   */
  change(progress: number): void
}

export function createTestFlow(
  seed: number,
  index: number,
  options: { hasTables: boolean; number: number; countEvent(what: RunEvent): void },
): TestFlow {
  const chance = createChance(seed, index)
  const scenario = drawScenario(chance, options.number, options.hasTables)
  const name = `s${seed}-${index}${suffixOf(scenario)}`
  const sourceHistory = new SourceHistory()
  const fewest = scenario.losesField || scenario.isGuarded ? 10 : 3
  const ids = Array.from({ length: chance.whole('items', fewest, mostItems) }, (_, at) => `i${at}`)
  for (const id of ids) sourceHistory.put(id, `${name} first`)
  const remembersKeys = chance.maybe('remembers keys', 0.5)
  const receiver = (which: string): Receiver => {
    const ledger = new Ledger(sourceHistory, scenario)
    return {
      ledger,
      shop: createShop(ledger, `${which} of ${name}`),
      done: remembersKeys ? new Set() : undefined,
      requests: 0,
    }
  }
  let changes = 0
  const testFlow: TestFlow = {
    name,
    scenario,
    chance,
    sourceHistory,
    web: receiver('web'),
    second: scenario.second && receiver('second'),
    isSecondThere: scenario.second === 'there',
    ids,
    locked: new Set(),
    recordForm: 'complete',
    reads: 0,
    countEvent: options.countEvent,
    change(progress) {
      // Only `createKeyRequests` changes items of such a flow, and names each key.
      if (scenario.polledBy === 'keys') return
      changes += 1
      const first = Math.min(ids.length - 1, Math.floor(progress * ids.length))
      const id = `i${chance.whole(`change ${changes}`, first, ids.length - 1)}`
      if (testFlow.locked.has(id)) return
      // A missing field shows only in many records.
      const removes = !scenario.losesField && chance.maybe(`removal ${changes}`, 0.15)
      if (removes) sourceHistory.remove(id)
      else sourceHistory.put(id, `${name} change ${changes}`)
      // The shop removed the item and the source changed it: the service has to create it again.
      const isOfShop = scenario.target === 'own ids' || scenario.target === 'batches with own ids'
      if (isOfShop && !removes && chance.maybe(`thrown away ${changes}`, 0.1)) {
        testFlow.web.shop.removeAtShop(id)
      }
    },
  }
  return testFlow
}

/** The end of a flow's name tells the processes what not to do with it, or what it may keep. */
export const unpolledSuffix = '-unpolled'
export const losesFieldSuffix = '-loses'
export const readOnceSuffix = '-once'

function suffixOf({ source, polledBy, losesField }: Scenario): string {
  if (source === 'files of changes') return readOnceSuffix
  if (polledBy !== 'harness') return unpolledSuffix
  return losesField ? losesFieldSuffix : ''
}

/** The path of the report of the item that a line of a difference names; undefined for other lines. */
export function itemPathOf(line: string): string | undefined {
  const [, name, item] = /^(s\d+-\d+(?:-\w+)?)(?:, \w+)?: (i\d+)\b/.exec(line) ?? []
  return name && item && `/flow/${name}/items/${item}`
}

/** The records that the source returns now. */
export function recordsOf(testFlow: TestFlow, since = 0): Partial<SourceItem>[] {
  const items = testFlow.sourceHistory.items(since)
  return testFlow.recordForm === 'complete' ? items : items.map(({ id, rev }) => ({ id, rev }))
}

/** The current targets of a flow, each with its name for a report. */
export function targetsOf({ name, web, second, isSecondThere }: TestFlow): [string, Receiver][] {
  const targets: [string, Receiver][] = [[name, web]]
  if (second && isSecondThere) targets.push([`${name}, second`, second])
  return targets
}
