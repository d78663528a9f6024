import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { PaymentDeps } from '../../payments/deps.ts'
import {
  changePerson,
  endSessionsOf,
  type Invitation,
  invitePerson,
  type Manager,
  readPeople,
  readSessionsOf,
  resetPerson,
  revokePerson,
} from '../../payments/people/manage-people.ts'
import { actorOf } from '../../payments/request-context.ts'
import type { PersonRow } from '../../repositories/people/people-queries.ts'
import { clientOfManager } from '../authentication.ts'
import {
  ChangePersonBody,
  InvitedResponse,
  NewPersonBody,
  PeopleQuery,
  PeopleResponse,
  PersonParams,
  PersonSchema,
  SessionsEndedResponse,
  SessionsResponse,
} from './people-schemas.ts'
import { viewPerson, viewPersonSession } from './person-views.ts'

/** Named users, for the administrator and for administrators of a client, who reach their own people alone. */
export const peopleRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  await app.register(invitationRoutes, { deps })
  await app.register(personRoutes, { deps })
  await app.register(personSessionRoutes, { deps })
}

/** People are listed and invited. */
const invitationRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'manage_people', within: 'all_stores' },
      schema: {
        operationId: 'listPeople',
        summary: 'The named users of a client, or of the service',
        querystring: PeopleQuery,
        response: { 200: PeopleResponse },
      },
    },
    async (request) => {
      const people = await readPeople(deps, clientOfManager(request, request.query.client))
      return { people: people.map((row) => viewPerson(row, deps.now())), total: people.length }
    },
  )

  app.post(
    '',
    {
      config: { needs: 'manage_people', within: 'all_stores', errors: ['CONFLICT', 'NOT_FOUND'] },
      schema: {
        operationId: 'invitePerson',
        summary: 'Invite a person by a link that sets the password',
        description:
          'The link works once, for three days. Give it to the person yourself: nothing is sent.',
        body: NewPersonBody,
        response: { 201: InvitedResponse },
      },
    },
    async (request, reply) => {
      const invited = await invitePerson(deps, managerOf(deps, request), request.body)
      return reply.code(201).send(viewInvited(deps, 'The person is invited', invited))
    },
  )
}

/** One person: other rights, a new invitation, the end of all access. */
const personRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.patch(
    '/:personId',
    {
      config: { needs: 'manage_people', within: 'all_stores' },
      schema: {
        operationId: 'changePerson',
        summary: 'Change the role and the stores of a person, from the next request on',
        params: PersonParams,
        body: ChangePersonBody,
        response: { 200: PersonSchema },
      },
    },
    async (request) => {
      const { personId } = request.params
      return viewPerson(
        await changePerson(deps, managerOf(deps, request), personId, request.body),
        deps.now(),
      )
    },
  )

  app.post(
    '/:personId/reset',
    {
      config: { needs: 'manage_people', within: 'all_stores' },
      schema: {
        operationId: 'resetPerson',
        summary: 'Delete password, codes and sessions, and invite the person again',
        params: PersonParams,
        response: { 200: InvitedResponse },
      },
    },
    async (request) => {
      const reset = await resetPerson(deps, managerOf(deps, request), request.params.personId)
      return viewInvited(deps, 'The person is invited again', reset)
    },
  )

  app.post(
    '/:personId/revoke',
    {
      config: { needs: 'manage_people', within: 'all_stores' },
      schema: {
        operationId: 'revokePerson',
        summary: 'End all access of a person at once',
        description: 'This cannot be undone.',
        params: PersonParams,
        response: { 200: PersonSchema },
      },
    },
    async (request) =>
      viewPerson(
        await revokePerson(deps, managerOf(deps, request), request.params.personId),
        deps.now(),
      ),
  )
}

/** Where a person is signed in. */
const personSessionRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '/:personId/sessions',
    {
      config: { needs: 'manage_people', within: 'all_stores' },
      schema: {
        operationId: 'listSessionsOfPerson',
        summary: 'Where a person is signed in',
        params: PersonParams,
        response: { 200: SessionsResponse },
      },
    },
    async (request) => {
      const { personId } = request.params
      const sessions = await readSessionsOf(deps, clientOfManager(request), personId)
      const current = request.principal?.sessionId
      return { sessions: sessions.map((row) => viewPersonSession(row, current)) }
    },
  )

  app.delete(
    '/:personId/sessions',
    {
      config: { needs: 'manage_people', within: 'all_stores' },
      schema: {
        operationId: 'endSessionsOfPerson',
        summary: 'Sign a person out everywhere',
        params: PersonParams,
        response: { 200: SessionsEndedResponse },
      },
    },
    async (request) => {
      const ended = await endSessionsOf(deps, managerOf(deps, request), request.params.personId)
      return { message: 'The person is signed out', ended }
    },
  )
}

function managerOf(deps: PaymentDeps, request: FastifyRequest): Manager {
  return { among: clientOfManager(request), actor: actorOf(deps, request) }
}

function viewInvited(
  deps: PaymentDeps,
  message: string,
  { person, invitation }: { person: PersonRow; invitation: Invitation },
) {
  return {
    message,
    person: viewPerson(person, deps.now()),
    invitation: {
      link: `${deps.settings.publicUrl}/dashboard#/invitation/${invitation.code}?name=${encodeURIComponent(person.name)}`,
      expires_at: invitation.expiresAt,
    },
  }
}
