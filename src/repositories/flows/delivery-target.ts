/** One destination of one flow. */
export type DeliveryTarget = { flow: string; destination: string }

/**
 * Where outcomes are recorded. `keepsHistory`: the flow keeps the content of its changes and every attempt. `isReadOnce`: its
 * source does not give an item again, as with files that are archived.
 */
export type OutcomeTarget = DeliveryTarget & { keepsHistory: boolean; isReadOnce: boolean }
