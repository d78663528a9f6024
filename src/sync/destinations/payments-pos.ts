import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { checkBody } from './body-check.ts'
import { DeletedPosBody, PosBody } from './payments-bodies.ts'
import type { PaymentsPort } from './payments-port.ts'
import { givenUp, refused, withheld } from './result.ts'

/**
 * Boxes of one client's stores, one item each, in process. Those of one store follow each other, whatever `concurrency` is:
 * the payment side works on a store once at a time and would refuse the others, at the cost of their attempts.
 */
export function openPaymentsPos(client: string, payments: PaymentsPort): Destination {
  const turns = new Map<string, Promise<unknown>>()
  const inTurn = (
    store: string,
    { mayStart }: DeliveryJob,
    signal: AbortSignal,
    work: () => Promise<DeliveryResult>,
  ): Promise<DeliveryResult> => {
    const turn = (turns.get(store) ?? Promise.resolve()).then(() => {
      if (isGivenUp(signal)) return givenUp()
      return mayStart() ? work() : withheld()
    })
    const settled = turn
      .catch(() => undefined)
      .then(() => {
        if (turns.get(store) === settled) turns.delete(store)
      })
    turns.set(store, settled)
    return turn
  }

  const remove = async (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    const checked = checkBody(DeletedPosBody, job.body)
    if (!checked.ok) return refused(checked.why)
    const { store_external_id, external_id } = checked.value
    return inTurn(store_external_id, job, signal, () =>
      payments.deletePos(client, store_external_id, external_id),
    )
  }
  const upsert = async (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    const checked = checkBody(PosBody, job.body)
    if (!checked.ok) return refused(checked.why)
    const { store_external_id, external_id, name } = checked.value
    return inTurn(store_external_id, job, signal, () =>
      payments.addPos(client, store_external_id, [{ externalId: external_id, name }]),
    )
  }
  return {
    deliver: (job, signal) => (job.kind === 'delete' ? remove(job, signal) : upsert(job, signal)),
    refusalOf({ kind, body }) {
      const checked = checkBody(kind === 'delete' ? DeletedPosBody : PosBody, body)
      return checked.ok ? undefined : checked.why
    },
    close: async () => {},
  }
}

/** By whoever stops or takes over. Time that went by in the queue is no reason: what overruns is waited for. */
function isGivenUp({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason?.name !== 'TimeoutError'
}
