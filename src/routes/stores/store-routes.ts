import type { z } from 'zod'
import { camelCased, snakeCased } from '../../domain/field-names.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
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
import { storesOfRequest } from '../session/store-access.ts'
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

export function addStoreRoutes(app: HttpServer, deps: PaymentDeps): void {
  app.get(
    '/stores',
    {
      config: { access: 'client', compressed: true },
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
    '/stores/:storeExternalId',
    {
      config: { access: 'client', compressed: true },
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

  app.post(
    '/stores',
    {
      config: { access: 'client', errors: ['CONFLICT', ...providerErrors] },
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
    '/stores/:storeExternalId/pos',
    {
      config: { access: 'client', errors: ['CONFLICT', ...providerErrors] },
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

  app.delete(
    '/stores/:storeExternalId/pos/:posExternalId',
    {
      config: { access: 'client', errors: ['CONFLICT', 'CHARGES_NOT_CLOSED', ...providerErrors] },
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
    '/stores/:storeExternalId',
    {
      config: { access: 'client', errors: ['CONFLICT', 'CHARGES_NOT_CLOSED', ...providerErrors] },
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
