import type { Endpoints } from './definition.ts'
import type { TestFlow } from './test-flow.ts'

/** Sends a request to one of the running processes; undefined when no answer came. */
export type Control = (
  method: 'GET' | 'POST',
  path: string,
  body?: object,
) => Promise<{ status: number; body: unknown } | undefined>

export type ActionDeps = {
  control: Control
  endpoints: Endpoints
  flowsDir: string
  isFaultFree(): boolean
  /** The part of the round that is over, from 0 to 1. */
  progress(): number
}

/** What an operator or an ERP does about one flow, one step at a time. */
export type Action = {
  /** Takes the next step. After the faults end it only completes what it began. */
  step(): Promise<void>
  /** The part that is not complete; undefined when there is none. */
  open(): string | undefined
}

/** A moment of the round that the seed decides, after the first import: before it, the action would have no effect. */
export function createTime(
  { isFaultFree, progress }: ActionDeps,
  { chance, web, ids }: TestFlow,
  what: string,
) {
  const at = chance.whole(`${what} begins`, 5, 70) / 100
  return () => !isFaultFree() && progress() >= at && web.ledger.counts.acknowledged > ids.length
}
