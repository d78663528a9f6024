import { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { Means } from '../../domain/closing.ts'
import { camelCased } from '../../domain/field-names.ts'
import { centsFromPoint } from '../../domain/money.ts'
import type { OpenRequests } from '../../http/open-request-limit.ts'
import { gapOf, overlapWith } from '../../payments/closings/closing-span.ts'
import {
  amend,
  type ClosingRequest,
  countClosing,
  openClosing,
  readClosing,
  setStoreTimeZone,
  sign,
  signedError,
} from '../../payments/closings/closings.ts'
import { describeClosing, listCharges } from '../../payments/closings/list-charges.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { listClosings } from '../../repositories/closings/closing-queries.ts'
import { type Language, preferredLanguage } from '../../texts/language.ts'
import { providerErrors, tenantOfRequest } from '../authentication.ts'
import { storesOfRequest } from '../store-access.ts'
import { StoreParams } from '../stores/store-schemas.ts'
import { closingCsv, closingFacts, fileName } from './closing-file.ts'
import { closingPrintout } from './closing-printout.ts'
import {
  AmendBody,
  AmendmentResponse,
  ClosingCsv,
  ClosingOpened,
  ClosingPage,
  ClosingParams,
  ClosingResponse,
  ClosingsResponse,
  CountClosingBody,
  ListClosingsQuery,
  OpenClosingBody,
  PaperQuery,
  TimeZoneBody,
  TimeZoneResponse,
} from './closing-schemas.ts'
import { viewAmendment, viewClosing, viewOpened, viewWholeClosing } from './closing-view.ts'
import { readClosingRoute, wholeOf } from './read-closing-route.ts'

/** A closing that errors name, for the API description. */
const example = {
  id: 'b1d5f0c2-7c39-4d0e-8a4b-2f6e9d3c5a71',
  number: 41,
  state: 'agreed' as const,
  from_at: new Date('2026-03-12T03:00:00Z'),
  to_at: new Date('2026-03-13T03:00:00Z'),
}
const exampleEnd = new Date('2026-03-13T15:00:00Z')

const signed = signedError({ ...example, state: 'signed' })

/** Of a time that does not follow the closings before it. */
const spanErrors = [
  overlapWith(example, exampleEnd, example.to_at),
  gapOf({ from: example.to_at, to: exampleEnd, businessDay: '2026-03-13' }),
  signed,
] as const

const json = <Schema>(schema: Schema) => ({ 'application/json': { schema } })

/** The closings of a box or a store, compared with the provider's own records. */
export const closingRoutes: FastifyPluginAsyncZod<{
  deps: PaymentDeps
  waits: OpenRequests
}> = async (app, { deps, waits }) => {
  await app.register(openingRoutes, { deps })
  await app.register(readClosingRoute, { deps, waits })
  await app.register(paperRoutes, { deps })
  await app.register(decisionRoutes, { deps })
}

/** A day or another time is closed, and those that are. */
const openingRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '',
    {
      config: {
        needs: 'close_days',
        within: 'box',
        errors: ['NOT_FOUND', ...spanErrors, ...providerErrors],
      },
      schema: {
        operationId: 'openClosing',
        summary: 'Close the day of a box or a store',
        description:
          'The closings of a box or store follow each other: no overlap, no gap, several a day. `business_day` closes what is left of the day, up to this moment while it is not over; `from` and `to` name another time, such as a shift. The same time again is the same closing, with its count corrected while it is not signed. Time before it without charges is joined to it. 409 CLOSING_OVERLAPS names the closing in the way, CLOSING_GAP the time that must be closed first. The first closing may leave earlier days open: `uncovered` names them. The provider is read from a minute after the end of the time; read the closing until it has a result.',
        body: OpenClosingBody,
        response: {
          200: {
            description: 'The closing of this time, which was opened before',
            content: json(ClosingOpened),
          },
          202: { description: 'The closing is opened', content: json(ClosingOpened) },
        },
      },
    },
    async (request, reply) => {
      const { body } = request
      const wanted: ClosingRequest = {
        ...camelCased(body),
        from: body.from === undefined ? undefined : new Date(body.from),
        to: body.to === undefined ? undefined : new Date(body.to),
        declared: body.declared && centsByMedium(body.declared),
      }
      const actor = actorOf(deps, request)
      const opened = await openClosing(deps, tenantOfRequest(request), wanted, actor)
      return reply.code(opened.isNew ? 202 : 200).send(viewOpened(opened))
    },
  )

  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list' },
      schema: {
        operationId: 'listClosings',
        summary: 'Closings of the client, newest day first',
        querystring: ListClosingsQuery,
        response: { 200: ClosingsResponse },
      },
    },
    async (request) => {
      const { query } = request
      const { rows, total } = await listClosings(deps.database.db, tenantOfRequest(request), {
        ...camelCased(query),
        stores: storesOfRequest(request),
        from: query.from?.slice(0, 10),
        to: query.to?.slice(0, 10),
      })
      return {
        closings: rows.map((row) => ({
          ...viewClosing(row),
          differences: row.lines.filter(({ kind }) => kind !== 'dismissed').length,
        })),
        total,
      }
    },
  )
}

/** A closing for a spreadsheet and on paper. */
const paperRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '/:closingId/csv',
    {
      ...app.forList,
      config: { needs: 'see', within: 'closing' },
      schema: {
        operationId: 'downloadClosing',
        summary: 'All charges of a closing, for a spreadsheet',
        description:
          'Both sides of each charge and what differs, with titles in the language, times by the clock of the store and the separators of the language.',
        params: ClosingParams,
        querystring: PaperQuery,
        response: {
          200: { description: 'Charges as CSV', content: { 'text/csv': { schema: ClosingCsv } } },
        },
      },
    },
    async (request, reply) => {
      const client = tenantOfRequest(request)
      const { closing } = await readClosing(deps, client, request.params.closingId)
      const names = await describeClosing(deps, closing)
      const file = { closing, names, charges: await listCharges(deps, closing) }
      const words = request.query.language ?? languageOf(request)
      return reply
        .type('text/csv; charset=utf-8')
        .header('content-disposition', `attachment; filename="${fileName(closing)}"`)
        .send(Readable.from(closingCsv(file, words)) as never) as never
    },
  )

  app.get(
    '/:closingId/print',
    {
      ...app.forList,
      config: { needs: 'see', within: 'closing' },
      schema: {
        operationId: 'printClosing',
        summary: 'A closing as a page to print and sign on paper',
        params: ClosingParams,
        querystring: PaperQuery,
        response: {
          200: {
            description: 'A page in that language',
            content: { 'text/html': { schema: ClosingPage } },
          },
        },
      },
    },
    async (request, reply) => {
      const words = request.query.language ?? languageOf(request)
      const { closing, amendments } = await readClosing(
        deps,
        tenantOfRequest(request),
        request.params.closingId,
      )
      const names = await describeClosing(deps, closing)
      const facts = closingFacts({ closing, names }, words)
      return reply
        .type('text/html; charset=utf-8')
        .send(
          closingPrintout(viewWholeClosing(closing, amendments, words), { facts, names }, words),
        )
    },
  )
}

/** What a person does with a closing. */
const decisionRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '/:closingId/count',
    {
      config: { needs: 'close_days', within: 'closing', errors: ['NOT_FOUND', signed] },
      schema: {
        operationId: 'countClosing',
        summary: 'Correct what was counted for a closing that is not signed',
        description:
          'The service compares it again; without `declared` it keeps its count. The last closing of a box or store, of a time that was not over, is extended when something was sold since.',
        params: ClosingParams,
        body: CountClosingBody,
        response: { 200: ClosingOpened },
      },
    },
    async (request) => {
      const { closingId } = request.params
      const declared = request.body.declared && centsByMedium(request.body.declared)
      const client = tenantOfRequest(request)
      return viewClosing(
        await countClosing(deps, client, closingId, declared, actorOf(deps, request)),
      )
    },
  )

  app.post(
    '/:closingId/sign',
    {
      config: {
        needs: 'close_days',
        within: 'closing',
        errors: ['NOT_FOUND', 'CLOSING_NOT_CHECKED'],
      },
      schema: {
        operationId: 'signClosing',
        summary: 'Sign a closing',
        description:
          'This cannot be undone. A signed closing never changes. Also one that differs or is unverified: its result is signed with it.',
        params: ClosingParams,
        response: { 200: ClosingResponse },
      },
    },
    async (request) => {
      const { closingId } = request.params
      await sign(deps, tenantOfRequest(request), closingId, actorOf(deps, request))
      return wholeOf(deps, request, closingId)
    },
  )

  app.post(
    '/:closingId/amendments',
    {
      config: {
        needs: 'close_days',
        within: 'closing',
        errors: ['NOT_FOUND', 'CLOSING_NOT_SIGNED'],
      },
      schema: {
        operationId: 'amendClosing',
        summary: 'Add to a signed closing what its time looks like now',
        description:
          'This cannot be undone. Such as money that came after it. The closing itself stays as it was signed.',
        params: ClosingParams,
        body: AmendBody,
        response: { 201: AmendmentResponse },
      },
    },
    async (request, reply) => {
      const { closingId } = request.params
      const { reason } = request.body
      const actor = actorOf(deps, request)
      const amendment = await amend(deps, tenantOfRequest(request), closingId, reason, actor)
      return reply.code(201).send(viewAmendment(amendment, languageOf(request)))
    },
  )
}

/** By whose clock the days of a store begin; beside the routes of stores. */
export const storeTimeZoneRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.put(
    '/:storeExternalId/time-zone',
    {
      config: { needs: 'set_up', within: 'all_stores', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'setStoreTimeZone',
        summary: 'Set by whose clock the days of a store begin',
        tags: ['Closings'],
        params: StoreParams,
        body: TimeZoneBody,
        response: { 200: TimeZoneResponse },
      },
    },
    async (request) => {
      const store = await setStoreTimeZone(
        deps,
        tenantOfRequest(request),
        request.params.storeExternalId,
        request.body.time_zone,
        actorOf(deps, request),
      )
      return { sucursal_id: store.external_id, time_zone: store.time_zone }
    },
  )
}

function languageOf(request: FastifyRequest): Language {
  return preferredLanguage(request.headers['accept-language'])
}

function centsByMedium(declared: Partial<Record<Means, string | undefined>>) {
  return Object.fromEntries(
    // The schema accepts only amounts that convert.
    Object.entries(declared).flatMap(([medium, amount]) =>
      amount === undefined
        ? []
        : [[medium, centsFromPoint(amount.replace(',', '.')) as number] as const],
    ),
  )
}
