import type { DeliveryResult, Destination } from '../types.ts'
import { checkBody } from './body-check.ts'
import { DeletedPosBody, PosBody } from './payments-bodies.ts'
import type { PaymentsPort } from './payments-port.ts'
import { postponed, refused } from './result.ts'

/**
 * Boxes of one client's stores, one item each, in process. Those of one store follow each other, whatever `concurrency` is:
 * the payment side works on a store once at a time and would refuse the others, at the cost of their attempts.
 */
export function openPaymentsPos(client: string, payments: PaymentsPort): Destination {
  const turns = new Map<string, Promise<unknown>>()
  const inTurn = (
    store: string,
    signal: AbortSignal,
    work: () => Promise<DeliveryResult>,
  ): Promise<DeliveryResult> => {
    const turn = (turns.get(store) ?? Promise.resolve()).then(() =>
      isGivenUp(signal) ? postponed('the delivery was given up', { outage: false }) : work(),
    )
    const settled = turn
      .catch(() => undefined)
      .then(() => {
        if (turns.get(store) === settled) turns.delete(store)
      })
    turns.set(store, settled)
    return turn
  }

  const remove = async (body: unknown, signal: AbortSignal): Promise<DeliveryResult> => {
    const checked = checkBody(DeletedPosBody, body)
    if (!checked.ok) return refused(checked.reason)
    const { store_external_id, external_id } = checked.value
    return inTurn(store_external_id, signal, () =>
      payments.deletePos(client, store_external_id, external_id),
    )
  }
  const upsert = async (body: unknown, signal: AbortSignal): Promise<DeliveryResult> => {
    const checked = checkBody(PosBody, body)
    if (!checked.ok) return refused(checked.reason)
    const { store_external_id, external_id, name } = checked.value
    return inTurn(store_external_id, signal, () =>
      payments.addPos(client, store_external_id, [{ externalId: external_id, name }]),
    )
  }
  return {
    deliver: ({ kind, body }, signal) =>
      kind === 'delete' ? remove(body, signal) : upsert(body, signal),
    refusalOf({ kind, body }) {
      const checked = checkBody(kind === 'delete' ? DeletedPosBody : PosBody, body)
      return checked.ok ? undefined : checked.reason
    },
    close: async () => {},
  }
}

/** By whoever stops or takes over. Time that went by in the queue is no reason: what overruns is waited for. */
function isGivenUp({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason?.name !== 'TimeoutError'
}
