import { z } from 'zod'
import { ErpId, limitedText, Timestamp } from '../field-schemas.ts'

const exampleLocation = {
  street_name: 'Av. Corrientes',
  street_number: '1234',
  city_name: 'Balvanera',
  state_name: 'Capital Federal',
  latitude: -34.6037,
  longitude: -58.3816,
  reference: 'Planta baja',
}
const exampleBox = { name: 'Caja 1', external_id: 'CAJA-1' }
const exampleCreatedBox = {
  id: '0b6f3a52-9a8e-4c67-8b0e-3f1f3a7d2c11',
  mpPosId: '138301467',
  externalId: 'CAJA-1',
  name: 'Caja 1',
}
const exampleStoreId = '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7'

const Location = z
  .strictObject({
    street_name: limitedText(1, 150),
    street_number: limitedText(1, 20),
    city_name: limitedText(1, 100).describe('As in the provider’s catalogue, accents included'),
    state_name: limitedText(1, 100),
    latitude: z.number().min(-90).max(90),
    longitude: z.number().min(-180).max(180),
    reference: limitedText(0, 200).nullable().optional(),
  })
  .meta({ id: 'NewLocation', example: exampleLocation })

const NewPos = z
  .strictObject({ name: limitedText(1, 100), external_id: ErpId.describe('ERP box id') })
  .meta({ id: 'NewPos', example: exampleBox })

const NewPosList = z.array(NewPos).max(100)

export const CreateStoreBody = z
  .strictObject({
    name: limitedText(1, 100),
    external_id: ErpId.describe('ERP store id'),
    location: Location,
    pos: NewPosList.optional(),
  })
  .meta({
    id: 'NewStore',
    example: {
      // Not the store of the tutorial, which exists already.
      name: 'Sucursal Norte',
      external_id: 'SUC-2',
      location: exampleLocation,
      pos: [{ name: 'Caja 2', external_id: 'CAJA-2' }],
    },
  })

export const AddPosBody = z
  .strictObject({ pos: NewPosList.min(1) })
  .meta({ id: 'NewPosList', example: { pos: [{ name: 'Caja 3', external_id: 'CAJA-3' }] } })

const CreatedPos = z
  .object({
    id: z.uuid(),
    mpPosId: z.string(),
    externalId: z.string(),
    name: z.string(),
  })
  .meta({ id: 'CreatedPos', example: exampleCreatedBox })

export const CreateStoreResponse = z
  .object({
    message: z.string(),
    store: z.object({
      id: z.uuid(),
      mpStoreId: z.string(),
      externalId: z.string(),
      name: z.string(),
    }),
    pos: z.array(CreatedPos),
  })
  .meta({
    id: 'StoreCreated',
    example: {
      message: 'The store is created',
      store: {
        id: exampleStoreId,
        mpStoreId: '87482378',
        externalId: 'SUC-1',
        name: 'Sucursal Centro',
      },
      pos: [exampleCreatedBox],
    },
  })

export const AddPosResponse = z.object({ message: z.string(), pos: z.array(CreatedPos) }).meta({
  id: 'PosCreated',
  example: { message: 'The boxes are created', pos: [exampleCreatedBox] },
})

const creationState = z
  .enum(['creating', 'active', 'deleting'])
  .describe('Other than active: a request failed half way; repeat it to finish')

export const StoreResponse = z
  .object({
    id: z.uuid(),
    external_id: z.string(),
    name: z.string(),
    mp_store_id: z.string().nullable().describe('null until the provider has it'),
    location: z.object({
      street_name: z.string(),
      street_number: z.string(),
      city_name: z.string(),
      state_name: z.string(),
      latitude: z.number(),
      longitude: z.number(),
      reference: z.string().nullable(),
    }),
    pos: z.array(
      z
        .object({
          id: z.uuid(),
          external_id: z.string(),
          name: z.string(),
          mp_pos_id: z.string().nullable().describe('null until the provider has it'),
          state: creationState,
        })
        .meta({ id: 'Pos' }),
    ),
    created_at: Timestamp,
    state: creationState,
  })
  .meta({
    id: 'Store',
    example: {
      id: exampleStoreId,
      external_id: 'SUC-1',
      name: 'Sucursal Centro',
      mp_store_id: '87482378',
      location: exampleLocation,
      pos: [
        {
          id: exampleCreatedBox.id,
          external_id: 'CAJA-1',
          name: 'Caja 1',
          mp_pos_id: '138301467',
          state: 'active',
        },
      ],
      created_at: '2026-11-21T14:30:00.000Z',
      state: 'active',
    },
  })

export const StoresResponse = z
  .object({ stores: z.array(StoreResponse), total: z.number() })
  .meta({ id: 'Stores' })

export const DeletedResponse = z
  .object({
    message: z.string(),
    deleted: z.object({ store: z.number(), pos: z.number() }),
  })
  .meta({
    id: 'StoreDeleted',
    example: { message: 'The store is deleted', deleted: { store: 1, pos: 3 } },
  })

const storeExternalId = ErpId.describe('ERP store id')

export const StoreParams = z.object({ storeExternalId })
export const PosParams = z.object({
  storeExternalId,
  posExternalId: ErpId.describe('ERP box id').meta({ example: 'CAJA-1' }),
})
