import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { createInvitation, revokeInvitation } from '../../payments/connection/invitations.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { listOpenInvitations } from '../../repositories/connection/invitation-queries.ts'
import {
  InvitationBody,
  InvitationParams,
  InvitationResponse,
  InvitationsResponse,
} from './invitation-schemas.ts'
import { MessageResponse } from './oauth-schemas.ts'

/** Each is valid for a day, so there are rarely more than a few. */
const listedAtMost = 200

/** Links with which shops connect their accounts themselves. */
export const invitationAdminRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      config: { needs: 'administer' },
      schema: {
        operationId: 'listInvitations',
        summary: 'Unused invitations, newest first',
        description: `Without their links, which are shown when they are made. At most ${listedAtMost}.`,
        response: { 200: InvitationsResponse },
      },
    },
    async () => {
      const open = await listOpenInvitations(deps.database.db, deps.now(), listedAtMost)
      return {
        invitations: open.map(({ id, client, created_at, expires_at }) => ({
          id,
          client,
          created_at,
          expires_at,
        })),
      }
    },
  )

  app.post(
    '',
    {
      config: { needs: 'administer', errors: ['CONFLICT'] },
      schema: {
        operationId: 'createInvitation',
        summary: 'Make a single-use link that connects a client without an account',
        body: InvitationBody,
        response: { 201: InvitationResponse },
      },
    },
    async (request, reply) => {
      const { client } = request.body
      const { id, url, expiresAt } = await createInvitation(deps, client, actorOf(deps, request))
      return reply
        .code(201)
        .send({ message: 'The link works once', id, client, url, expires_at: expiresAt })
    },
  )

  app.delete(
    '/:invitationId',
    {
      config: { needs: 'administer', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'revokeInvitation',
        summary: 'End an unused invitation: its link stops working',
        params: InvitationParams,
        response: { 200: MessageResponse },
      },
    },
    async (request) => {
      await revokeInvitation(deps, request.params.invitationId, actorOf(deps, request))
      return { message: 'The invitation was revoked' }
    },
  )
}
