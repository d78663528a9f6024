import { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { camelCased } from '../../domain/field-names.ts'
import { centsFromPoint } from '../../domain/money.ts'
import type { HttpServer } from '../../http/create-server.ts'
import {
  amend,
  type ClosingRequest,
  countClosing,
  openClosing,
  readClosing,
  setStoreTimeZone,
  sign,
} from '../../payments/closings/closings.ts'
import { describeClosing, listCharges } from '../../payments/closings/list-charges.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
import { listClosings } from '../../repositories/closings/closing-queries.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { providerErrors, tenantOfRequest } from '../authentication.ts'
import { storesOfRequest } from '../session/store-access.ts'
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

const spanErrors = ['CLOSING_OVERLAPS', 'CLOSING_GAP', 'CLOSING_SIGNED'] as const
const json = <Schema>(schema: Schema) => ({ 'application/json': { schema } })

/** The closings of a box or a store, compared with the provider's own records. */
export function addClosingRoutes(app: HttpServer, deps: PaymentDeps): void {
  const language = (request: FastifyRequest) =>
    preferredLanguage(request.headers['accept-language'])
  const wholeOf = async (request: FastifyRequest, id: string, words = language(request)) => {
    const { closing, amendments } = await readClosing(deps, tenantOfRequest(request), id)
    return viewWholeClosing(closing, amendments, words)
  }

  app.post(
    '/closings',
    {
      config: { access: 'client', errors: ['NOT_FOUND', ...spanErrors, ...providerErrors] },
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
    '/closings',
    {
      config: { access: 'client', compressed: true },
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

  app.get(
    '/closings/:closingId',
    {
      config: { access: 'client', compressed: true },
      schema: {
        operationId: 'readClosing',
        summary: 'A closing with what differs, and its amendments',
        params: ClosingParams,
        response: { 200: ClosingResponse },
      },
    },
    async (request) => wholeOf(request, request.params.closingId),
  )

  app.get(
    '/closings/:closingId/csv',
    {
      config: { access: 'client', compressed: true },
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
      const words = request.query.language ?? language(request)
      return reply
        .type('text/csv; charset=utf-8')
        .header('content-disposition', `attachment; filename="${fileName(closing)}"`)
        .send(Readable.from(closingCsv(file, words)) as never) as never
    },
  )

  app.get(
    '/closings/:closingId/print',
    {
      config: { access: 'client', compressed: true },
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
      const words = request.query.language ?? language(request)
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

  app.post(
    '/closings/:closingId/count',
    {
      config: { access: 'client', errors: ['NOT_FOUND', 'CLOSING_SIGNED'] },
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
    '/closings/:closingId/sign',
    {
      config: { access: 'client', errors: ['NOT_FOUND', 'CLOSING_NOT_CHECKED'] },
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
      return wholeOf(request, closingId)
    },
  )

  app.post(
    '/closings/:closingId/amendments',
    {
      config: { access: 'client', errors: ['NOT_FOUND', 'CLOSING_NOT_SIGNED'] },
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
      return reply.code(201).send(viewAmendment(amendment, language(request)))
    },
  )

  app.put(
    '/stores/:storeExternalId/time-zone',
    {
      config: { access: 'client', errors: ['NOT_FOUND'] },
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

function centsByMedium(declared: Record<string, string>): Record<string, number> {
  return Object.fromEntries(
    // The schema accepts only amounts that convert.
    Object.entries(declared).map(([medium, amount]) => [
      medium,
      centsFromPoint(amount.replace(',', '.')) as number,
    ]),
  )
}
