import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import type { Database } from '../../db/database.ts'
import { AppError } from '../../errors/app-error.ts'
import { PlainErrorBody } from '../../http/error-body.ts'
import type { StreamLimits } from '../../http/event-stream.ts'
import type { Language } from '../../texts/language.ts'
import { type StoredReason, sentenceOf, shownReason } from '../../texts/reason.ts'
import type { FlowProblemView, SyncOutcome } from '../api/control-types.ts'
import type { FlowControl } from '../control/flow-control.ts'
import { controlError, readerLanguage } from '../control-errors.ts'
import { problemTexts } from '../definition/problem-view.ts'
import type { Workbench } from '../workbench/workbench.ts'

export type ControlDeps = {
  flows: FlowControl
  workbench: Workbench
  /** Follows the changes of flows in all processes. */
  listen: Database['listen']
  /** How long and how many streams of events may be; for tests. */
  streams?: Partial<StreamLimits> | undefined
  /** Address of the payments dashboard; undefined without one. */
  dashboardPage?: string | undefined
  /** The one time zone of the shops; null if there are several, or one is unknown. */
  shopTimeZone: () => Promise<string | null>
  now: () => Date
  /** Metrics of this listener. */
  registry: Registry
  /** Rejects with SERVICE_UNAVAILABLE if the database is unavailable or takes no writes. */
  requireDatabase: () => Promise<void>
}

/** An error response of a route in the API description, with its own text. */
export function failureResponse(description: string) {
  return { description, content: { 'application/json': { schema: PlainErrorBody } } }
}

/** Runs work that ends when the client disconnects or the listener closes. */
export async function whileConnected<T>(
  { shutdown }: FastifyInstance,
  reply: FastifyReply,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ended = new AbortController()
  const why = { code: 'SERVICE_STOPPING' } as const
  const forget = shutdown.onClosing(() =>
    ended.abort(controlError('SERVICE_UNAVAILABLE', why, { extra: { retryAfterSeconds: 1 } })),
  )
  const hangUp = () => ended.abort(new AppError('CALLER_GONE'))
  reply.raw.once('close', hangUp)
  if (reply.raw.closed) hangUp()
  try {
    return await work(ended.signal)
  } finally {
    forget()
    reply.raw.off('close', hangUp)
  }
}

/** For routes that read the source of a flow. */
export const sourceResponses = {
  502: failureResponse('The source could not be read; the error says why'),
}

/** The language of the caller. */
export function languageOf(request: Pick<FastifyRequest, 'headers'>): Language {
  return readerLanguage(request.headers['accept-language'])
}

/** A problem of a definition. `why` has its text in the reader's language. */
export function viewProblem({ advice, ...problem }: FlowProblemView, language: Language) {
  const { code, data = {} }: StoredReason = problem.why
  return { ...problem, why: { code, data, ...problemTexts({ ...problem, advice }, language) } }
}

/** The result of a requested poll; for a paused flow the decision that it waits for. */
export function viewSynced<T extends SyncOutcome>({ why, ...outcome }: T, language: Language) {
  if (!why) return outcome
  const reason = sentenceOf(why, 'en')
  return { ...outcome, ...(reason !== undefined && { reason }), why: shownReason(why, language) }
}
