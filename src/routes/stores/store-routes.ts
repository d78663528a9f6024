import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { z } from 'zod'
import { camelCased, snakeCased } from '../../domain/field-names.ts'
import { AppError } from '../../errors/app-error.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import {
  addPos,
  createStore,
  readStores,
  removePos,
  removeStore,
} from '../../payments/stores/manage-stores.ts'
import { readStore, type StoreWithPos } from '../../payments/stores/stores-at-provider.ts'
import type { PosRow } from '../../repositories/stores/store-queries.ts'
import { providerErrors, tenantOfRequest } from '../authentication.ts'
import { storesOfRequest } from '../store-access.ts'
import {
  AddPosBody,
  AddPosResponse,
  CreateStoreBody,
  CreateStoreResponse,
  DeletedResponse,
  PosParams,
  StoreParams,
  StoreResponse,
  StoresResponse,
} from './store-schemas.ts'

export const storeRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  await app.register(readingRoutes, { deps })
  await app.register(creationRoutes, { deps })
  await app.register(deletionRoutes, { deps })
}

/** What stands in the way of a deletion, for the API description. */
const chargesNotClosed = new AppError('CHARGES_NOT_CLOSED', {
  extra: {
    inTheWay: {
      orders: [
        {
          orderId: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
          externalReference: '0001-00004711',
          cajaId: 'CAJA-1',
          status: 'processed',
        },
      ],
      payments: [],
      total: 1,
    },
  },
})

/** The stores of a client with their boxes. */
const readingRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list' },
      schema: {
        operationId: 'listStores',
        summary: 'Stores of the client with their boxes',
        response: { 200: StoresResponse },
      },
    },
    async (request) => {
      const stores = await readStores(deps, tenantOfRequest(request), storesOfRequest(request))
      return { stores: stores.map(viewStore), total: stores.length }
    },
  )

  app.get(
    '/:storeExternalId',
    {
      ...app.forList,
      config: { needs: 'see', within: 'store' },
      schema: {
        operationId: 'readStore',
        summary: 'One store with its boxes',
        params: StoreParams,
        response: { 200: StoreResponse },
      },
    },
    async (request) =>
      viewStore(await readStore(deps, tenantOfRequest(request), request.params.storeExternalId)),
  )
}

/** New stores and boxes, at the provider and here. */
const creationRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '',
    {
      config: { needs: 'set_up', within: 'all_stores', errors: ['CONFLICT', ...providerErrors] },
      schema: {
        operationId: 'createStore',
        summary: 'Create a store, with its boxes if wanted',
        description:
          'There are two seconds between the creations of two boxes. After a failure in the middle, the same request adopts what exists and creates the rest.',
        body: CreateStoreBody,
        response: { 201: CreateStoreResponse },
      },
    },
    async (request, reply) => {
      const { name, external_id, location, pos } = request.body
      const created = await createStore(
        deps,
        tenantOfRequest(request),
        {
          store: {
            externalId: external_id,
            name,
            location: { ...camelCased(location), reference: location.reference || null },
          },
          pos: (pos ?? []).map(camelCased),
        },
        actorOf(deps, request),
      )
      return reply.code(201).send({
        message: 'The store is created',
        store: {
          id: created.store.id,
          mpStoreId: created.store.mp_store_id as string,
          externalId: created.store.external_id,
          name: created.store.name,
        },
        pos: created.pos.map(viewCreatedPos),
      })
    },
  )

  app.post(
    '/:storeExternalId/pos',
    {
      config: { needs: 'set_up', within: 'all_stores', errors: ['CONFLICT', ...providerErrors] },
      schema: {
        operationId: 'addPos',
        summary: 'Add boxes to a store',
        params: StoreParams,
        body: AddPosBody,
        response: { 201: AddPosResponse },
      },
    },
    async (request, reply) => {
      const created = await addPos(
        deps,
        tenantOfRequest(request),
        request.params.storeExternalId,
        request.body.pos.map(camelCased),
        actorOf(deps, request),
      )
      return reply
        .code(201)
        .send({ message: 'The boxes are created', pos: created.map(viewCreatedPos) })
    },
  )
}

/** The end of boxes and stores, at the provider and here. */
const deletionRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.delete(
    '/:storeExternalId/pos/:posExternalId',
    {
      config: {
        needs: 'set_up',
        within: 'all_stores',
        errors: ['CONFLICT', chargesNotClosed, ...providerErrors],
      },
      schema: {
        operationId: 'deletePos',
        summary: 'Delete a box, at the provider and here',
        description:
          'This cannot be undone. 409 CHARGES_NOT_CLOSED names the orders that are open, or paid and in no signed closing.',
        params: PosParams,
        response: { 200: DeletedResponse },
      },
    },
    async (request) => {
      const { storeExternalId, posExternalId } = request.params
      await removePos(
        deps,
        tenantOfRequest(request),
        storeExternalId,
        posExternalId,
        actorOf(deps, request),
      )
      return { message: 'The box is deleted', deleted: { store: 0, pos: 1 } }
    },
  )

  app.delete(
    '/:storeExternalId',
    {
      config: {
        needs: 'set_up',
        within: 'all_stores',
        errors: ['CONFLICT', chargesNotClosed, ...providerErrors],
      },
      schema: {
        operationId: 'deleteStore',
        summary: 'Delete a store with all its boxes',
        description:
          'This cannot be undone. 409 CHARGES_NOT_CLOSED names the orders that are open, or paid and in no signed closing.',
        params: StoreParams,
        response: { 200: DeletedResponse },
      },
    },
    async (request) => {
      const deleted = await removeStore(
        deps,
        tenantOfRequest(request),
        request.params.storeExternalId,
        actorOf(deps, request),
      )
      return { message: 'The store is deleted', deleted }
    },
  )
}

function viewCreatedPos(box: PosRow) {
  return {
    id: box.id,
    // A creation answers only once the provider has every box.
    mpPosId: box.mp_pos_id as string,
    externalId: box.external_id,
    name: box.name,
  }
}

function viewStore({ store, pos }: StoreWithPos): z.input<typeof StoreResponse> {
  return {
    ...store,
    location: snakeCased(store.location),
    pos,
  }
}
