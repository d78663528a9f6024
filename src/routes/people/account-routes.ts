import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { AppError } from '../../errors/app-error.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
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
import { actorOf } from '../../payments/request-context.ts'
import { fromOf } from '../browser-sessions.ts'
import { viewSession } from '../session/session-routes.ts'
import { SessionResponse } from '../session/session-schemas.ts'
import { setCookies } from '../session-cookie.ts'
import {
  AccountResponse,
  ConfirmTotpBody,
  DoneResponse,
  FirstPasswordBody,
  PasswordBody,
  RemoveTotpBody,
  SessionParams,
  TotpResponse,
} from './people-schemas.ts'
import { viewPerson, viewPersonSession } from './person-views.ts'

/** The first password of an invited person. */
export const firstPasswordRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.post(
    '/invitation',
    {
      config: {
        signsIn: true,
        errors: ['INVITATION_INVALID', 'FORBIDDEN', 'RATE_LIMITED'],
      },
      schema: {
        operationId: 'acceptPersonInvitation',
        summary: 'Set the first password with an invitation, and begin a session',
        description:
          'The invitation is used up. An address has so many tries as with wrong tokens.',
        body: FirstPasswordBody,
        response: { 200: SessionResponse },
      },
    },
    async (request, reply) => {
      app.sessions.refuseForeignPage(request)
      await app.countTry(request)
      const begun = await acceptInvitation(deps, request.body, fromOf(deps, request))
      await app.sessions.signOut(request)
      const { principal, until, cookies } = app.sessions.begin(begun, request)
      setCookies(reply, cookies)
      return viewSession(deps, principal, until)
    },
  )
}

/** What a signed-in person changes of his own. */
export const accountRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  await app.register(ownSessionRoutes, { deps })
  await app.register(ownSecretRoutes, { deps })
}

/** The person, and where else the person is signed in. */
const ownSessionRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      config: { needs: 'account', within: 'anything' },
      schema: {
        operationId: 'readAccount',
        summary: 'The person who is signed in, and where else',
        response: { 200: AccountResponse },
      },
    },
    async (request) => {
      const { personId, sessionId } = ownerOf(deps, request)
      const row = await requirePerson(deps, undefined, personId)
      const sessions = await readSessionsOf(deps, undefined, personId)
      return {
        person: viewPerson(row, deps.now()),
        sessions: sessions.map((session) => viewPersonSession(session, sessionId)),
      }
    },
  )

  app.delete(
    '/sessions/:sessionId',
    {
      config: { needs: 'account', within: 'anything' },
      schema: {
        operationId: 'endOwnSession',
        summary: 'Sign out somewhere else',
        params: SessionParams,
        response: { 200: DoneResponse },
      },
    },
    async (request) => {
      await endOwnSession(deps, ownerOf(deps, request), request.params.sessionId)
      return { message: 'The session is over' }
    },
  )
}

/** The password and the codes. */
const ownSecretRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '/password',
    {
      config: { needs: 'account', within: 'anything' },
      schema: {
        operationId: 'changePassword',
        summary: 'Set another password, which ends the other sessions',
        body: PasswordBody,
        response: { 200: DoneResponse },
      },
    },
    async (request) => {
      await changePassword(deps, ownerOf(deps, request), request.body)
      return { message: 'The password is changed' }
    },
  )

  app.post(
    '/totp',
    {
      config: { needs: 'account', within: 'anything', errors: ['CONFLICT'] },
      schema: {
        operationId: 'beginTotp',
        summary: 'A new secret for an authenticator app; confirm a code of it next',
        response: { 200: TotpResponse },
      },
    },
    async (request) => beginTotp(deps, ownerOf(deps, request)),
  )

  app.post(
    '/totp/confirm',
    {
      config: { needs: 'account', within: 'anything', errors: ['CONFLICT'] },
      schema: {
        operationId: 'confirmTotp',
        summary: 'Ask for a code at each sign-in from now on',
        body: ConfirmTotpBody,
        response: { 200: DoneResponse },
      },
    },
    async (request) => {
      await confirmTotp(deps, ownerOf(deps, request), request.body.code)
      return { message: 'A sign-in needs a code from now on' }
    },
  )

  app.post(
    '/totp/remove',
    {
      config: { needs: 'account', within: 'anything' },
      schema: {
        operationId: 'removeTotp',
        summary: 'Ask for no code any more',
        body: RemoveTotpBody,
        response: { 200: DoneResponse },
      },
    },
    async (request) => {
      await removeTotp(deps, ownerOf(deps, request), request.body.password)
      return { message: 'A sign-in no longer needs a code' }
    },
  )
}

function ownerOf(deps: PaymentDeps, request: FastifyRequest): Owner {
  const { person, sessionId } = request.principal ?? {}
  if (!person || sessionId === undefined) throw new AppError('FORBIDDEN')
  return { personId: person.id, sessionId, actor: actorOf(deps, request) }
}
