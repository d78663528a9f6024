import { z } from 'zod'
import { findingMessage } from '../definition/fields.ts'

/** Same limits as POST /stores, so that a flow gets the same errors as a till. */
function text(min: number, max: number) {
  return z
    .string()
    .min(min)
    .max(max)
    .regex(/^(?!\ufeff)\P{Cc}*$/u, findingMessage({ code: 'CONTROL_CHARACTERS' }))
}

const externalId = text(1, 64).regex(/\S/, findingMessage({ code: 'MUST_NOT_BE_BLANK' }))

const Pos = z.strictObject({ external_id: externalId, name: text(1, 100) })

/** The body of a `payments.stores` item, as for POST /stores. */
export const StoreBody = z.strictObject({
  external_id: externalId,
  name: text(1, 100),
  location: z.strictObject({
    street_name: text(1, 150),
    street_number: text(1, 20),
    city_name: text(1, 100),
    state_name: text(1, 100),
    latitude: z.number().min(-90).max(90),
    longitude: z.number().min(-180).max(180),
    reference: text(0, 200).nullable().optional(),
  }),
  pos: z
    .array(
      Pos,
      // Zod's own message does not show the usual cause: JSONata returns a list of one box as an object.
      { error: findingMessage({ code: 'MUST_BE_A_LIST' }) },
    )
    .max(100)
    .optional(),
})

/** Deleting a store needs only its id. */
export const DeletedStoreBody = z.object({ external_id: externalId })

/** The body of a `payments.pos` item: one box and its store. */
export const PosBody = z.strictObject({
  store_external_id: externalId,
  external_id: externalId,
  name: text(1, 100),
})

export const DeletedPosBody = z.object({ store_external_id: externalId, external_id: externalId })
