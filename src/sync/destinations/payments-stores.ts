import type { DeliveryResult, Destination } from '../types.ts'
import { checkBody } from './body-check.ts'
import { DeletedStoreBody, StoreBody } from './payments-bodies.ts'
import type { PaymentsPort } from './payments-port.ts'
import { refused } from './result.ts'

export type PaymentsStoresSettings = {
  client: string
  /** True only when the flow says both `deletes.mode: delete` and `allowStoreDelete: true`. */
  mayDeleteStores: boolean
}

/** Stores of one client, by external id, in process: no HTTP, no key. */
export function openPaymentsStores(
  settings: PaymentsStoresSettings,
  payments: PaymentsPort,
): Destination {
  const { client } = settings
  const remove = async (body: unknown): Promise<DeliveryResult> => {
    if (!settings.mayDeleteStores) {
      return refused(
        'a store is only deleted with deletes.mode: delete and allowStoreDelete: true, since that cannot be undone',
      )
    }
    const checked = checkBody(DeletedStoreBody, body)
    if (!checked.ok) return refused(checked.reason)
    return payments.deleteStore(client, checked.value.external_id)
  }
  const upsert = async (body: unknown): Promise<DeliveryResult> => {
    const checked = checkBody(StoreBody, body)
    if (!checked.ok) return refused(checked.reason)
    const { external_id, name, location, pos = [] } = checked.value
    const ids = new Set(pos.map((box) => box.external_id))
    if (ids.size < pos.length) return refused('pos: an external_id stands twice in the list')
    return payments.upsertStore(client, {
      externalId: external_id,
      name,
      location: {
        streetName: location.street_name,
        streetNumber: location.street_number,
        cityName: location.city_name,
        stateName: location.state_name,
        latitude: location.latitude,
        longitude: location.longitude,
        reference: location.reference || null,
      },
      pos: pos.map((box) => ({ externalId: box.external_id, name: box.name })),
    })
  }
  return {
    deliver: (job) => (job.kind === 'delete' ? remove(job.body) : upsert(job.body)),
    close: async () => {},
  }
}
