import type { DeliveryResult, Destination } from '../types.ts'
import { checkBody } from './body-check.ts'
import { DeletedPosBody, PosBody } from './payments-bodies.ts'
import type { PaymentsPort } from './payments-port.ts'
import { refused } from './result.ts'

/** Boxes of one client's stores, one item each, in process. */
export function openPaymentsPos(client: string, payments: PaymentsPort): Destination {
  const remove = async (body: unknown): Promise<DeliveryResult> => {
    const checked = checkBody(DeletedPosBody, body)
    if (!checked.ok) return refused(checked.reason)
    return payments.deletePos(client, checked.value.store_external_id, checked.value.external_id)
  }
  const upsert = async (body: unknown): Promise<DeliveryResult> => {
    const checked = checkBody(PosBody, body)
    if (!checked.ok) return refused(checked.reason)
    const { store_external_id, external_id, name } = checked.value
    return payments.addPos(client, store_external_id, [{ externalId: external_id, name }])
  }
  return {
    deliver: (job) => (job.kind === 'delete' ? remove(job.body) : upsert(job.body)),
    refusalOf({ kind, body }) {
      const checked = checkBody(kind === 'delete' ? DeletedPosBody : PosBody, body)
      return checked.ok ? undefined : checked.reason
    },
    close: async () => {},
  }
}
