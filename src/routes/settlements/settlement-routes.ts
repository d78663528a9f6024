import type { FastifyRequest, preParsingHookHandler } from 'fastify'
import { addCents, negated, signedPointFromCents, sumCents } from '../../domain/money.ts'
import { AppError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { refuseHostileText } from '../../http/json-body.ts'
import { limitOpenRequests, type OpenRequestLimits } from '../../http/open-request-limit.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
import { askForReport, readFetch } from '../../payments/settlements/fetch-reports.ts'
import { setChargeClass } from '../../payments/settlements/set-charge-class.ts'
import { reportLimitBytes, uploadReport } from '../../payments/settlements/upload-report.ts'
import {
  listChargeClasses,
  listNotClassed,
  sumNamedParts,
  sumNets,
} from '../../repositories/settlements/net-amount-queries.ts'
import type { SettlementFetchRow } from '../../repositories/settlements/settlement-fetches.ts'
import {
  listSettlementFiles,
  type SettlementFileRow,
} from '../../repositories/settlements/settlement-queries.ts'
import { tenantOfRequest } from '../authentication.ts'
import { longestSpanMs, spanOf } from '../field-schemas.ts'
import { cursorsOf, timePageOf, timePlace } from '../list-cursor.ts'
import {
  ChargeClassBody,
  ChargeClassesResponse,
  ChargeClassResponse,
  FetchBody,
  FetchParams,
  FetchResponse,
  FilesQuery,
  FilesResponse,
  HandInBody,
  HandInQuery,
  HandInResponse,
  NetQuery,
  NetResponse,
} from './settlement-schemas.ts'

const mostNames = 100

/** What the provider deducts from each charge, and its reports about it. */
export function addSettlementRoutes(app: HttpServer, deps: PaymentDeps): void {
  // A scope of its own: only here a raw file is accepted as a body.
  app.register(async (scope) => {
    const utf8 = new TextDecoder('utf-8', { fatal: true })
    scope.addContentTypeParser(
      'text/csv',
      { parseAs: 'buffer', bodyLimit: reportLimitBytes },
      (_request, bytes, done) => {
        try {
          const body = { content: utf8.decode(bytes as Buffer) }
          refuseHostileText(body, 'body')
          done(null, body)
        } catch (cause) {
          const message = 'The file is not valid UTF-8'
          done(
            cause instanceof AppError ? cause : new AppError('BAD_REQUEST', { message, cause }),
            undefined,
          )
        }
      },
    )
    // The type provider does not apply to a new scope by itself.
    addHandIn(scope as unknown as HttpServer, deps)
  })

  app.get(
    '/settlements/files',
    {
      config: { access: 'client', compressed: true },
      schema: {
        operationId: 'listSettlementFiles',
        summary: 'Imported reports, newest first',
        querystring: FilesQuery,
        response: { 200: FilesResponse },
      },
    },
    async (request) => {
      const client = tenantOfRequest(request)
      const page = await listSettlementFiles(deps.database.db, client, timePageOf(request.query))
      return {
        files: page.rows.map(viewFile),
        total: page.total,
        ...cursorsOf(page, (file) => timePlace(file.created_at, file.id)),
      }
    },
  )

  app.get(
    '/settlements/net',
    {
      config: { access: 'client', compressed: true },
      schema: {
        operationId: 'readNet',
        summary: 'What the charges of a span leave to the seller, by fee, financing and tax',
        querystring: NetQuery,
        response: { 200: NetResponse },
      },
    },
    async (request) => {
      const span = { client: tenantOfRequest(request), ...spanOf(request.query, deps.now()) }
      const sums = await sumNets(deps.database.db, span)
      const named = await sumNamedParts(deps.database.db, span, 2 * mostNames)
      return viewSpan(span, sums, named)
    },
  )

  addFetchRoutes(app, deps)
  addClassRoutes(app, deps)
}

/** A report of 8 MiB takes some 400 MB while it is read. */
const uploads = { perOwner: 1, total: 2 }
const comeAgainSeconds = 5

/**
 * Counts uploads before their bodies are read. A place is released when the work is done, or when the client disconnects before
 * it began. So a client cannot start another upload beside its own by disconnecting.
 */
function limitUploads() {
  const openRequests = limitOpenRequests(uploads)
  const waiting = new WeakMap<FastifyRequest, () => void>()
  const preParsing: preParsingHookHandler = (request, reply, payload, done) => {
    const place = openRequests.take(tenantOfRequest(request))
    if (typeof place !== 'function') {
      done(tooManyOpen(place))
      return
    }
    waiting.set(request, place)
    reply.raw.once('close', () => waiting.get(request)?.())
    done(null, payload)
  }
  const during = async <T>(request: FastifyRequest, work: () => Promise<T>): Promise<T> => {
    const release = waiting.get(request)
    waiting.delete(request)
    try {
      return await work()
    } finally {
      release?.()
    }
  }
  return { preParsing, during }
}

function tooManyOpen(limit: keyof OpenRequestLimits): AppError {
  const extra = { retryAfterSeconds: comeAgainSeconds }
  return limit === 'perOwner'
    ? new AppError('RATE_LIMITED', {
        message: 'Another report of this client is being imported; send this one when it is done',
        extra,
      })
    : new AppError('SERVICE_UNAVAILABLE', {
        message: 'Other reports are being imported; send this one again',
        extra,
      })
}

function addHandIn(app: HttpServer, deps: PaymentDeps): void {
  const { preParsing, during } = limitUploads()
  app.post(
    '/settlements/files',
    {
      config: { access: 'client' },
      preParsing,
      schema: {
        operationId: 'handInSettlementFile',
        summary: 'Import a settlement or release report of the provider',
        description:
          'This cannot be undone. The CSV file, as `text/csv` (up to 8 MiB) or as `content` of a JSON body. The service detects the separator, the decimal comma and lists of taxes without quotes. It imports each movement once, whichever reports have it; the same file again adds nothing. A file with an error is refused whole, with the line of the error. It imports one report of a client at a time, and two in all: another one gets 429 or 503, with `Retry-After`.',
        querystring: HandInQuery,
        body: HandInBody,
        response: { 200: HandInResponse },
      },
    },
    async (request) => {
      const { name = null, zone } = request.query
      const given = { text: request.body.content, name, zone }
      const { file, rows, added, changed, withoutOrder } = await during(request, () =>
        uploadReport(deps, tenantOfRequest(request), given, actorOf(deps, request)),
      )
      return {
        message: added > 0 ? 'The report is imported' : 'Everything in the report was known',
        ...viewFile(file),
        added,
        changed,
        known: rows - added - changed,
        without_order: withoutOrder,
      }
    },
  )
}

function addFetchRoutes(app: HttpServer, deps: PaymentDeps): void {
  app.post(
    '/settlements/fetches',
    {
      config: { access: 'client' },
      schema: {
        operationId: 'fetchSettlements',
        summary: 'Have a report fetched from the provider',
        description:
          'With the configuration that the shop has for its own reports, which is only read: without one, or without the columns that count, the fetch is refused with its reason. An equal request gives the fetch that is open (200).',
        body: FetchBody,
        response: { 200: FetchResponse, 202: FetchResponse },
      },
    },
    async (request, reply) => {
      const { report, from, to } = request.body
      const { fetch, isNew } = await askForReport(
        deps,
        tenantOfRequest(request),
        { report, fromDay: from, toDay: to },
        actorOf(deps, request),
      )
      return reply.code(isNew ? 202 : 200).send(viewFetch(fetch))
    },
  )

  app.get(
    '/settlements/fetches/:fetchId',
    {
      config: { access: 'client' },
      schema: {
        operationId: 'readSettlementFetch',
        summary: 'How far a report is that is fetched',
        params: FetchParams,
        response: { 200: FetchResponse },
      },
    },
    async (request) =>
      viewFetch(await readFetch(deps, tenantOfRequest(request), request.params.fetchId)),
  )
}

function viewFetch(fetch: SettlementFetchRow) {
  return { ...fetch, from: fetch.from_day, to: fetch.to_day }
}

function addClassRoutes(app: HttpServer, deps: PaymentDeps): void {
  app.get(
    '/admin/charge-classes',
    {
      config: { access: 'admin', compressed: true },
      schema: {
        operationId: 'listChargeClasses',
        summary: 'What the names of the provider’s charges mean, and which no rule knows',
        response: { 200: ChargeClassesResponse },
      },
    },
    async () => {
      const { db } = deps.database
      const since = new Date(deps.now().getTime() - longestSpanMs)
      const classes = await listChargeClasses(db)
      const unknown = await listNotClassed(db, since, mostNames)
      return {
        classes: classes.map((rule) => ({ ...rule, entity: rule.entity || null })),
        not_classed: unknown.map((charge) => ({
          ...charge,
          amount: signedPointFromCents(charge.cents),
        })),
      }
    },
  )

  app.put(
    '/admin/charge-classes',
    {
      config: { access: 'admin' },
      schema: {
        operationId: 'setChargeClass',
        summary: 'Say what the provider’s charges of a name are',
        description:
          'For all clients; every net is computed again. A name as a whole counts before the beginning of one, and a longer beginning before a shorter one.',
        body: ChargeClassBody,
        response: { 200: ChargeClassResponse },
      },
    },
    async (request) => {
      const { name, entity, class: chargeClass } = request.body
      const { rule, isApplied } = await setChargeClass(
        deps,
        { name, entity: entity ?? '', class: chargeClass },
        actorOf(deps, request),
      )
      return {
        message: 'The rule for charges of this name is stored',
        ...rule,
        entity: rule.entity || null,
        applied: isApplied,
      }
    },
  )
}

function viewFile(file: SettlementFileRow) {
  const { totals } = file
  return {
    ...file,
    totals: {
      gross: signedPointFromCents(totals.grossCents),
      fee: signedPointFromCents(totals.feeCents),
      financing: signedPointFromCents(totals.financingCents),
      taxes: signedPointFromCents(totals.taxesCents),
      net: signedPointFromCents(totals.netCents),
    },
    from: file.from_at,
    to: file.to_at,
  }
}

function viewSpan(
  { from, to }: { from: Date; to: Date },
  sums: Awaited<ReturnType<typeof sumNets>>,
  named: Awaited<ReturnType<typeof sumNamedParts>>,
) {
  const known = sums.filter(({ state }) => state !== null)
  const unknown = sums.find(({ state }) => state === null)
  const ordersIn = (state: string) => known.find((part) => part.state === state)?.orders ?? 0
  const gross = sumCents(known, ({ grossCents }) => grossCents)
  const fee = sumCents(known, ({ feeCents }) => feeCents)
  const financing = sumCents(known, ({ financingCents }) => financingCents)
  const unexplained = sumCents(known, ({ unexplainedCents }) => unexplainedCents)
  const net = sumCents(known, ({ netCents }) => netCents)
  const taxes = sumCents([fee, financing, unexplained, net], negated)
  const partsOf = (wanted: (typeof named)[number]['part']) =>
    named
      .filter(({ part }) => part === wanted)
      .slice(0, mostNames)
      .map(({ name, entity, cents }) => ({ name, entity, amount: signedPointFromCents(cents) }))
  return {
    from,
    to,
    orders: known.reduce((total, { orders }) => total + orders, 0),
    estimated: ordersIn('estimated'),
    settled: ordersIn('settled'),
    differs: ordersIn('differs'),
    gross: signedPointFromCents(gross),
    fee: signedPointFromCents(fee),
    financing: signedPointFromCents(financing),
    taxes: partsOf('taxes'),
    // The tax total of each net, so that the sum is right whatever the number of names.
    taxes_total: signedPointFromCents(addCents(gross, taxes)),
    not_classed: partsOf('notClassed'),
    unexplained: signedPointFromCents(unexplained),
    net: signedPointFromCents(net),
    charged_back: {
      taken: signedPointFromCents(sumCents(known, ({ takenCents }) => takenCents)),
      returned: signedPointFromCents(sumCents(known, ({ returnedCents }) => returnedCents)),
    },
    unknown: {
      orders: unknown?.orders ?? 0,
      gross: signedPointFromCents(unknown?.grossCents ?? 0),
    },
  }
}
