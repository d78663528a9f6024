import { z } from 'zod'

/** The limits are those of POST /stores, so that a flow is told the same as a till. */
function text(min: number, max: number) {
  return z
    .string()
    .min(min)
    .max(max)
    .regex(
      /^(?!\ufeff)\P{Cc}*$/u,
      'must not contain control characters, nor begin with a byte order mark',
    )
}

const externalId = text(1, 64).regex(/\S/, 'must not be blank')

const Pos = z.strictObject({ external_id: externalId, name: text(1, 100) })

/** The body of a `payments.stores` item: as POST /stores takes it. */
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
      // The usual cause, and nothing in the message would lead there.
      { error: 'expected a list; JSONata makes one entry an object unless the list is in [ ]' },
    )
    .max(100)
    .optional(),
})

/** Of a store that is to go, only its id counts. */
export const DeletedStoreBody = z.object({ external_id: externalId })

/** The body of a `payments.pos` item: one box, and the store it belongs to. */
export const PosBody = z.strictObject({
  store_external_id: externalId,
  external_id: externalId,
  name: text(1, 100),
})

export const DeletedPosBody = z.object({ store_external_id: externalId, external_id: externalId })
