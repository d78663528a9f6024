import type { FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import { PlainErrorBody } from '../../http/error-body.ts'
import type { StreamLimits } from '../../http/event-stream.ts'
import type { FlowNews } from '../control/flow-news.ts'
import type { FlowService } from '../flow-service.ts'

export type ControlDeps = {
  flows: FlowService
  news: FlowNews
  /** How long and how many streams of events may be; for tests. */
  streams?: Partial<StreamLimits> | undefined
  /** Address of the dashboard of payments; undefined where none is known. */
  dashboardPage?: string | undefined
  now: () => Date
  /** The listener's own figures. */
  registry: Registry
  /** Rejects with SERVICE_UNAVAILABLE when the database is away or takes no writes. */
  requireDatabase: () => Promise<void>
  /** Whether the request may do what operators do; for public routes. */
  isOperator: (request: FastifyRequest) => boolean
}

/** Of routes that every operator may call. */
export const forOperators = { config: { access: 'admin' as const } }
/** The same, for routes of one flow. */
export const forFlow = { config: { access: 'admin' as const, errors: ['NOT_FOUND' as const] } }
/** Of routes that have the source of a flow read as it is then: an ERP that only gives the word need not wait for the end. */
export const forSyncs = { config: { ...forFlow.config, mayComeLate: true as const } }

/** An error answer of a route, for the description of the API, in words of its own. */
export function failureResponse(description: string) {
  return { description, content: { 'application/json': { schema: PlainErrorBody } } }
}

/** Of routes that read the source of a flow. */
export const sourceResponses = {
  502: failureResponse('The source could not be read; the error says why'),
}

/** Whom the logs name: the address on arrival, since tokens are shared, and a connection that is gone has none any more. */
export function actorOf(request: FastifyRequest): string {
  return request.arrivedFrom
}
