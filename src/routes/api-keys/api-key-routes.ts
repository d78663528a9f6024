import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { snakeCased } from '../../domain/field-names.ts'
import { createApiKey, revokeApiKey, revokeClientKeys } from '../../payments/api-keys/api-keys.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { listApiKeys } from '../../repositories/api-keys/api-key-queries.ts'
import { MessageResponse } from '../connection/oauth-schemas.ts'
import {
  ApiKeysResponse,
  CreateApiKeyBody,
  CreateApiKeyResponse,
  RevokeBody,
} from './api-key-schemas.ts'

export const apiKeyRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  await app.register(keyRoutes, { deps })
  await app.register(revocationRoute, { deps })
}

/** The keys of all clients, and new ones. */
const keyRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      config: { needs: 'administer' },
      schema: {
        operationId: 'listApiKeys',
        summary: 'All keys of all clients, newest first',
        response: { 200: ApiKeysResponse },
      },
    },
    async () => {
      await deps.keyUses.flush()
      const keys = await listApiKeys(deps.database.db)
      return {
        keys: keys.map((key) => ({
          id: key.id,
          client: key.client,
          description: key.description,
          active: key.active,
          created_at: key.created_at,
          last_used_at: key.last_used_at,
          key: key.key_mask,
          mp_user_id: key.mp_user_id,
        })),
      }
    },
  )

  app.post(
    '',
    {
      config: { needs: 'administer', errors: ['OAUTH_NOT_CONNECTED'] },
      schema: {
        operationId: 'createApiKey',
        summary: 'Make a key for a connected client',
        description:
          'The value is shown in this answer only. Earlier keys stay valid until they are revoked, so keys can be changed without a gap.',
        body: CreateApiKeyBody,
        response: { 201: CreateApiKeyResponse },
      },
    },
    async (request, reply) => {
      const { client, description } = request.body
      const created = await createApiKey(
        deps,
        { client, description: description ?? null },
        actorOf(deps, request),
      )
      return reply.code(201).send({
        message: 'The key is shown only now: store it',
        ...snakeCased(created),
        client,
      })
    },
  )
}

/** The end of a key. */
const revocationRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '/revoke',
    {
      config: { needs: 'administer', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'revokeApiKeys',
        summary: 'End all keys of a client at once, or one key',
        description:
          'This cannot be undone. With `client` all of its keys stop working, with `key_id` that one alone; exactly one of the two is given.',
        body: RevokeBody,
        response: { 200: MessageResponse },
      },
    },
    async (request) => {
      const { client, key_id } = request.body
      const actor = actorOf(deps, request)
      if (key_id !== undefined) {
        await revokeApiKey(deps, key_id, actor)
        return { message: 'The key was revoked' }
      }
      // The schema guarantees that one of the two is present.
      const count = await revokeClientKeys(deps, client as string, actor)
      return { message: count === 1 ? 'The key was revoked' : `${count} keys were revoked` }
    },
  )
}
