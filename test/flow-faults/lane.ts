import { type Chance, createChance } from './chance.ts'
import { drawPlay, type Happening, type Play } from './kinds.ts'
import { Ledger } from './ledger.ts'
import { createShop, type Shop } from './shop.ts'
import { type SourceItem, Truth } from './truth.ts'

/** Their keys are i0, i1 and so on. */
export const mostItems = 14

/** A target of a flow: what was sent to it, and the shop behind it where that gives its own ids. */
export type Receiver = {
  ledger: Ledger
  shop: Shop
  /** Keys that it has done, for a target that does nothing a second time; undefined for one that forgets. */
  done: Set<string> | undefined
  requests: number
}

/** One flow between a source that changes and targets that misbehave, everything decided by its seed. */
export type Lane = {
  name: string
  play: Play
  chance: Chance
  truth: Truth
  /** The main target, and a second one where there is one by now. */
  web: Receiver
  second: Receiver | undefined
  /** Whether the flow has its second target by now. */
  isSecondThere: boolean
  ids: readonly string[]
  /** Keys that are somebody's for now: nobody else changes them. */
  locked: Set<string>
  /** How the source shows its items at the moment. */
  looks: 'as ever' | 'without text'
  reads: number
  note(what: Happening): void
  /**
   * Changes something at the source. With `progress`, from 0 to 1, ever more items have had their last change: what is
   * lost of those no later change makes good.
   */
  change(progress: number): void
}

export function createLane(
  seed: number,
  index: number,
  options: { hasTables: boolean; turn: number; note(what: Happening): void },
): Lane {
  const chance = createChance(seed, index)
  const play = drawPlay(chance, options.turn, options.hasTables)
  const name = `s${seed}-${index}${suffixOf(play)}`
  const truth = new Truth()
  const fewest = play.losesField || play.isGuarded ? 10 : 3
  const ids = Array.from({ length: chance.whole('items', fewest, mostItems) }, (_, at) => `i${at}`)
  for (const id of ids) truth.put(id, `${name} first`)
  const remembersKeys = chance.maybe('remembers keys', 0.5)
  const receiver = (which: string): Receiver => {
    const ledger = new Ledger(truth, play)
    return {
      ledger,
      shop: createShop(ledger, `${which} of ${name}`),
      done: remembersKeys ? new Set() : undefined,
      requests: 0,
    }
  }
  let changes = 0
  const lane: Lane = {
    name,
    play,
    chance,
    truth,
    web: receiver('web'),
    second: play.second && receiver('second'),
    isSecondThere: play.second === 'there',
    ids,
    locked: new Set(),
    looks: 'as ever',
    reads: 0,
    note: options.note,
    change(progress) {
      // The key of everything that changes there is named, by who names it.
      if (play.polledBy === 'names') return
      changes += 1
      const first = Math.min(ids.length - 1, Math.floor(progress * ids.length))
      const id = `i${chance.whole(`change ${changes}`, first, ids.length - 1)}`
      if (lane.locked.has(id)) return
      // Records need to be many to tell that a field is missing.
      const removes = !play.losesField && chance.maybe(`removal ${changes}`, 0.15)
      if (removes) truth.remove(id)
      else truth.put(id, `${name} change ${changes}`)
      // Somebody at the shop has thrown it away, and it changes at the source: it has to be made anew.
      const isOfShop = play.target === 'own ids' || play.target === 'batches with own ids'
      if (isOfShop && !removes && chance.maybe(`thrown away ${changes}`, 0.1)) {
        lane.web.shop.throwAway(id)
      }
    },
  }
  return lane
}

/** Whoever plays with a flow knows by its name what to leave alone. */
export const quiet = '-quiet'
export const losing = '-loses'

function suffixOf({ polledBy, losesField }: Play): string {
  if (polledBy !== 'everybody') return quiet
  return losesField ? losing : ''
}

/** The records of a source as it shows them now. */
export function recordsOf(lane: Lane, since = 0): Partial<SourceItem>[] {
  const items = lane.truth.items(since)
  return lane.looks === 'as ever' ? items : items.map(({ id, rev }) => ({ id, rev }))
}

/** The targets that a flow has by now, each with its name for a report. */
export function targetsOf({ name, web, second, isSecondThere }: Lane): [string, Receiver][] {
  const targets: [string, Receiver][] = [[name, web]]
  if (second && isSecondThere) targets.push([`${name}, second`, second])
  return targets
}
