import type { Reason } from '../../domain/flow-reasons.ts'
import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { checkBody } from './body-check.ts'
import { DeletedStoreBody, StoreBody } from './payments-bodies.ts'
import type { PaymentsPort } from './payments-port.ts'
import { refused, withheld } from './result.ts'

export type PaymentsStoresSettings = {
  client: string
  /** True only when the flow has both `deletes.mode: delete` and `allowStoreDelete: true`. */
  mayDeleteStores: boolean
}

/** Stores of one client by external id, without HTTP and API key. */
export function openPaymentsStores(
  settings: PaymentsStoresSettings,
  payments: PaymentsPort,
): Destination {
  const { client } = settings
  const remove = async ({ body, mayStart }: DeliveryJob): Promise<DeliveryResult> => {
    const made = storeToDelete(settings, body)
    if ('problem' in made) return refused(made.problem)
    if (!mayStart()) return withheld()
    return payments.deleteStore(client, made.externalId)
  }
  const upsert = async ({ body, mayStart }: DeliveryJob): Promise<DeliveryResult> => {
    const made = storeOf(body)
    if ('problem' in made) return refused(made.problem)
    if (!mayStart()) return withheld()
    return payments.upsertStore(client, made.store)
  }
  return {
    deliver: (job) => (job.kind === 'delete' ? remove(job) : upsert(job)),
    refusalOf({ kind, body }) {
      const made = kind === 'delete' ? storeToDelete(settings, body) : storeOf(body)
      return 'problem' in made ? made.problem : undefined
    },
    close: async () => {},
  }
}

type Problem = { problem: Reason }

function storeToDelete(
  { mayDeleteStores }: PaymentsStoresSettings,
  body: unknown,
): { externalId: string } | Problem {
  if (!mayDeleteStores) {
    return { problem: { code: 'NO_STORE_DELETE' } }
  }
  const checked = checkBody(DeletedStoreBody, body)
  return checked.ok ? { externalId: checked.value.external_id } : { problem: checked.why }
}

function storeOf(body: unknown): { store: Parameters<PaymentsPort['upsertStore']>[1] } | Problem {
  const checked = checkBody(StoreBody, body)
  if (!checked.ok) return { problem: checked.why }
  const { external_id, name, location, pos = [] } = checked.value
  const ids = new Set(pos.map((box) => box.external_id))
  if (ids.size < pos.length) return { problem: { code: 'POS_TWICE' } }
  return {
    store: {
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
    },
  }
}
