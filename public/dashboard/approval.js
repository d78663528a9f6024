import { percent } from '../shared/format.js'

/** Of the orders for which a payment was tried and that have ended, the part whose money came in; a dash without any. */
export function approvalRate({ paid, declined }) {
  const tried = paid + declined
  return tried === 0 ? '—' : percent(paid, tried)
}
