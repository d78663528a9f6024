import type { FastifyRequest } from 'fastify'
import type { StreamLimits } from '../../http/event-stream.ts'
import type { FlowNews } from '../control/flow-news.ts'
import type { FlowService } from '../flow-service.ts'

export type ControlDeps = {
  flows: FlowService
  news: FlowNews
  /** How long and how many streams of events may be; for tests. */
  streams?: Partial<StreamLimits> | undefined
  now: () => Date
  /** Rejects with SERVICE_UNAVAILABLE when the database is away or takes no writes. */
  requireDatabase: () => Promise<void>
}

/** Of routes that every operator may call. */
export const forOperators = { config: { access: 'admin' as const } }
/** The same, for routes of one flow. */
export const forFlow = { config: { access: 'admin' as const, errors: ['NOT_FOUND' as const] } }

/** Whom the activity log names: the address, since tokens are shared. */
export function actorOf(request: FastifyRequest): string {
  return request.ip
}
