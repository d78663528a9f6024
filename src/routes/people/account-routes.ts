import type { FastifyRequest } from 'fastify'
import { AppError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
import {
  beginTotp,
  changePassword,
  confirmTotp,
  endOwnSession,
  type Owner,
  removeTotp,
} from '../../payments/people/account.ts'
import {
  acceptInvitation,
  readSessionsOf,
  requirePerson,
} from '../../payments/people/manage-people.ts'
import type { Guards } from '../authentication.ts'
import { fromOf } from '../session/browser-sessions.ts'
import { viewSession } from '../session/session-routes.ts'
import { SessionResponse } from '../session/session-schemas.ts'
import {
  AcceptInvitationBody,
  AccountResponse,
  ConfirmTotpBody,
  DoneResponse,
  PasswordBody,
  RemoveTotpBody,
  SessionParams,
  TotpResponse,
} from './people-schemas.ts'
import { viewPerson, viewPersonSession } from './person-views.ts'

/** What a signed-in person changes of his own, and the first password of an invited one. */
export function addAccountRoutes(app: HttpServer, deps: PaymentDeps, guards: Guards): void {
  const ownerOf = (request: FastifyRequest): Owner => {
    const { person, sessionId } = request.principal ?? {}
    if (!person || sessionId === undefined) throw new AppError('FORBIDDEN')
    return { personId: person.id, sessionId, actor: actorOf(deps, request) }
  }

  app.post(
    '/account/invitation',
    {
      config: {
        access: 'public',
        signsIn: true,
        errors: ['INVITATION_INVALID', 'FORBIDDEN', 'RATE_LIMITED'],
      },
      schema: {
        operationId: 'acceptPersonInvitation',
        summary: 'Set the first password with an invitation, and begin a session',
        description:
          'The invitation is used up. An address has so many tries as with wrong tokens.',
        body: AcceptInvitationBody,
        response: { 200: SessionResponse },
      },
    },
    async (request, reply) => {
      guards.refuseForeignPage(request)
      await guards.countTry(request)
      const begun = await acceptInvitation(deps, request.body, fromOf(deps, request))
      await guards.signOut(request)
      const { principal, until, cookies } = guards.begin(begun, request)
      return reply.header('set-cookie', cookies).send(await viewSession(deps, principal, until))
    },
  )

  app.get(
    '/account',
    {
      config: { access: 'person' },
      schema: {
        operationId: 'readAccount',
        summary: 'The person who is signed in, and where else',
        response: { 200: AccountResponse },
      },
    },
    async (request) => {
      const { personId, sessionId } = ownerOf(request)
      const row = await requirePerson(deps, undefined, personId)
      const sessions = await readSessionsOf(deps, undefined, personId)
      return {
        person: viewPerson(row, deps.now()),
        sessions: sessions.map((session) => viewPersonSession(session, sessionId)),
      }
    },
  )

  app.post(
    '/account/password',
    {
      config: { access: 'person' },
      schema: {
        operationId: 'changePassword',
        summary: 'Set another password, which ends the other sessions',
        body: PasswordBody,
        response: { 200: DoneResponse },
      },
    },
    async (request) => {
      await changePassword(deps, ownerOf(request), request.body)
      return { message: 'The password is changed' }
    },
  )

  app.post(
    '/account/totp',
    {
      config: { access: 'person', errors: ['CONFLICT'] },
      schema: {
        operationId: 'beginTotp',
        summary: 'A new secret for an authenticator app; confirm a code of it next',
        response: { 200: TotpResponse },
      },
    },
    async (request) => beginTotp(deps, ownerOf(request)),
  )

  app.post(
    '/account/totp/confirm',
    {
      config: { access: 'person', errors: ['CONFLICT'] },
      schema: {
        operationId: 'confirmTotp',
        summary: 'Ask for a code at each sign-in from now on',
        body: ConfirmTotpBody,
        response: { 200: DoneResponse },
      },
    },
    async (request) => {
      await confirmTotp(deps, ownerOf(request), request.body.code)
      return { message: 'A sign-in needs a code from now on' }
    },
  )

  app.post(
    '/account/totp/remove',
    {
      config: { access: 'person' },
      schema: {
        operationId: 'removeTotp',
        summary: 'Ask for no code any more',
        body: RemoveTotpBody,
        response: { 200: DoneResponse },
      },
    },
    async (request) => {
      await removeTotp(deps, ownerOf(request), request.body.password)
      return { message: 'A sign-in no longer needs a code' }
    },
  )

  app.delete(
    '/account/sessions/:sessionId',
    {
      config: { access: 'person' },
      schema: {
        operationId: 'endOwnSession',
        summary: 'Sign out somewhere else',
        params: SessionParams,
        response: { 200: DoneResponse },
      },
    },
    async (request) => {
      await endOwnSession(deps, ownerOf(request), request.params.sessionId)
      return { message: 'The session is over' }
    },
  )
}
