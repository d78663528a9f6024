import type { FastifyRequest } from 'fastify'
import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
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
import type { PersonRow } from '../../repositories/people/people-queries.ts'
import { clientOfManager } from '../authentication.ts'
import {
  ChangePersonBody,
  InvitedResponse,
  NewPersonBody,
  PeopleQuery,
  PeopleResponse,
  Person,
  PersonParams,
  SessionsEndedResponse,
  SessionsResponse,
} from './people-schemas.ts'
import { viewPerson, viewPersonSession } from './person-views.ts'

/** Named users, for the administrator and for administrators of a client, who reach their own people alone. */
export function addPeopleRoutes(app: HttpServer, deps: PaymentDeps): void {
  const managerOf = (request: FastifyRequest): Manager => ({
    among: clientOfManager(request),
    actor: actorOf(deps, request),
  })
  const viewInvited = (
    message: string,
    { person, invitation }: { person: PersonRow; invitation: Invitation },
  ) => ({
    message,
    person: viewPerson(person, deps.now()),
    invitation: {
      link: `${deps.settings.publicUrl}/dashboard#/invitation/${invitation.code}`,
      expires_at: invitation.expiresAt,
    },
  })

  app.get(
    '/people',
    {
      config: { access: 'managers', compressed: true },
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
    '/people',
    {
      config: { access: 'managers', errors: ['CONFLICT', 'NOT_FOUND'] },
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
      const invited = await invitePerson(deps, managerOf(request), request.body)
      return reply.code(201).send(viewInvited('The person is invited', invited))
    },
  )

  app.patch(
    '/people/:personId',
    {
      config: { access: 'managers' },
      schema: {
        operationId: 'changePerson',
        summary: 'Change the role and the stores of a person, from the next request on',
        params: PersonParams,
        body: ChangePersonBody,
        response: { 200: Person },
      },
    },
    async (request) => {
      const { personId } = request.params
      return viewPerson(
        await changePerson(deps, managerOf(request), personId, request.body),
        deps.now(),
      )
    },
  )

  app.post(
    '/people/:personId/reset',
    {
      config: { access: 'managers' },
      schema: {
        operationId: 'resetPerson',
        summary: 'Delete password, codes and sessions, and invite the person again',
        params: PersonParams,
        response: { 200: InvitedResponse },
      },
    },
    async (request) => {
      const reset = await resetPerson(deps, managerOf(request), request.params.personId)
      return viewInvited('The person is invited again', reset)
    },
  )

  app.post(
    '/people/:personId/revoke',
    {
      config: { access: 'managers' },
      schema: {
        operationId: 'revokePerson',
        summary: 'End all access of a person at once',
        description: 'This cannot be undone.',
        params: PersonParams,
        response: { 200: Person },
      },
    },
    async (request) =>
      viewPerson(await revokePerson(deps, managerOf(request), request.params.personId), deps.now()),
  )

  app.get(
    '/people/:personId/sessions',
    {
      config: { access: 'managers' },
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
    '/people/:personId/sessions',
    {
      config: { access: 'managers' },
      schema: {
        operationId: 'endSessionsOfPerson',
        summary: 'Sign a person out everywhere',
        params: PersonParams,
        response: { 200: SessionsEndedResponse },
      },
    },
    async (request) => {
      const ended = await endSessionsOf(deps, managerOf(request), request.params.personId)
      return { message: 'The person is signed out', ended }
    },
  )
}
