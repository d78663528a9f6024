import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import {
  actorOnOpen,
  endedUnpaid,
  isFailedRefund,
  isKnownRefund,
  isPendingRefund,
  isUnpaidPayment,
  orderWords,
  paymentStatusFrom,
  paymentWords,
  receivedStatuses,
  refundWords,
  throughStatuses,
  wentThrough,
} from '../../src/domain/order-state.ts'

/** Every state in the files of the provider, for orders and for payments of both APIs. */
const named = {
  orders:
    'created at_terminal processing in_process action_required processed charged_back refunded canceled failed expired',
  payments:
    'created at_terminal pending authorized processing in_process action_required processed approved in_mediation charged_back refunded canceled cancelled failed rejected expired',
  refunds:
    'processed approved refunded created pending authorized processing in_process in_progress failed rejected canceled cancelled expired',
}

test('the table has every state of the provider files', () => {
  expect([...orderWords.keys()].sort()).toEqual(named.orders.split(' ').sort())
  expect([...paymentWords.keys()].sort()).toEqual(named.payments.split(' ').sort())
  expect([...refundWords.keys()].sort()).toEqual(named.refunds.split(' ').sort())
})

test('an unknown state is open: it is no money, no end and no contradiction', () => {
  const word = 'a_word_of_another_day'
  expect(paymentStatusFrom(word)).toBe(word)
  expect([wentThrough(word), endedUnpaid(word), isUnpaidPayment(word)]).toEqual([
    false,
    false,
    false,
  ])
  expect([isKnownRefund(word), isFailedRefund(word), isPendingRefund(word)]).toEqual([
    false,
    false,
    true,
  ])
  expect(actorOnOpen(word)).toBe('provider')
})

test('disputed money counts as received until the decision of its case', () => {
  for (const word of ['charged_back', 'in_mediation']) {
    expect(receivedStatuses).toContain(word)
    expect(paymentWords.get(word)?.isFinal).toBe(false)
  }
  expect(throughStatuses).toEqual(expect.arrayContaining([...receivedStatuses, 'refunded']))
})

test('our state of a payment agrees with the provider’s about the money', () => {
  for (const [word, { money }] of paymentWords) {
    const ours = paymentWords.get(paymentStatusFrom(word))
    expect(ours === undefined ? money : ours.money, word).toBe(money)
    expect(wentThrough(word) && endedUnpaid(word), word).toBe(false)
  }
})

test('no other file names states of the provider', () => {
  const root = fileURLToPath(new URL('../../', import.meta.url))
  // Settlement reports have states of their own; destinations of flows have a state "authorized".
  const others = ['src/domain/order-state.ts', 'src/provider/reports-api.ts']
  const otherFiles = globSync('src/**/*.ts', { cwd: root })
    .filter((file) => !/^src\/(sandbox|sync|notifications)\//.test(file) && !others.includes(file))
    .filter((file) =>
      /'(charged_back|in_mediation|in_process|cancelled|authorized)'/.test(
        readFileSync(join(root, file), 'utf8'),
      ),
    )
  expect(otherFiles).toEqual([])
})
