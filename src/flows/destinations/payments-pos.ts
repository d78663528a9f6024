import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { checkBody } from './body-check.ts'
import { DeletedPosBody, PosBody } from './payments-bodies.ts'
import type { PaymentsPort } from './payments-port.ts'
import { aborted, refused, withheld } from './result.ts'

/**
 * Boxes of one client's stores, one item per box, without HTTP. Boxes of the same store are sent one after another, whatever
 * `concurrency` says. The payment side allows one change of a store at a time, and a refusal would cost an attempt.
 */
export function openPaymentsPos(client: string, payments: PaymentsPort): Destination {
  const running = new Map<string, Promise<unknown>>()
  const inSequence = (
    store: string,
    { mayStart }: DeliveryJob,
    signal: AbortSignal,
    work: () => Promise<DeliveryResult>,
  ): Promise<DeliveryResult> => {
    const result = (running.get(store) ?? Promise.resolve()).then(() => {
      if (isAborted(signal)) return aborted()
      return mayStart() ? work() : withheld()
    })
    const settled = result
      .catch(() => undefined)
      .then(() => {
        if (running.get(store) === settled) running.delete(store)
      })
    running.set(store, settled)
    return result
  }

  const remove = async (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    const checked = checkBody(DeletedPosBody, job.body)
    if (!checked.ok) return refused(checked.why)
    const { store_external_id, external_id } = checked.value
    return inSequence(store_external_id, job, signal, () =>
      payments.deletePos(client, store_external_id, external_id),
    )
  }
  const upsert = async (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    const checked = checkBody(PosBody, job.body)
    if (!checked.ok) return refused(checked.why)
    const { store_external_id, external_id, name } = checked.value
    return inSequence(store_external_id, job, signal, () =>
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

/** True after a stop or a lost lease. A timeout while queued does not count: the call runs to its end. */
function isAborted({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason?.name !== 'TimeoutError'
}
