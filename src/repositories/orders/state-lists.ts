import { type RawBuilder, sql } from 'kysely'
import { type StateFlag, statesThat, unknownResults } from '../../domain/order-state.ts'

const quoted = (states: readonly string[]) => states.map((state) => `'${state}'`).join(', ')

/** The states with a flag as a part of a statement's text: `status in (${listOf('open')})`. */
export function listOf(flag: StateFlag): string {
  return quoted(statesThat(flag))
}

/** The same in a statement of `sql`. */
export function statesOf(flag: StateFlag): RawBuilder<unknown> {
  return sql.raw(listOf(flag))
}

/** `creation in (${unknownList})`, or `state` of an operation: its result at the provider is not known. */
export const unknownList = quoted(unknownResults)
