import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { AppError, invalid } from '../../errors/app-error.ts'
import { readActivity } from '../../payments/audit/activity.ts'
import { createAuthorOf } from '../../payments/audit/entry-author.ts'
import { verifyActivityChain } from '../../payments/audit/verify-activity.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { clientOfManager } from '../authentication.ts'
import { cursorsOf, sequencePageOf } from '../list-cursor.ts'
import { ActivityQuery, ActivityResponse, VerifyQuery, VerifyResponse } from './activity-schemas.ts'

/** Each check reads the whole log, beside tills on the same database. */
const checksAtOnce = 2

const verifyDescription = `Walks the whole log. \`valid\` is false when an entry was changed,
removed, added or moved, when the end was cut off, and when
the end of the chain is not the one that the service signed; \`findings\` names the places. Entries of the last second may
not be sealed in the chain yet: \`unsealed\`. Old entries were deleted up to \`start\`, if KEEP_AUDIT_DAYS is set. An old copy of the whole log passes the check. To detect it, pass the place
and hash of a later \`activity log checkpoint\` line of the service's log. At most ${checksAtOnce} checks at a time (429);
disconnect to end one.`

export const activityRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see_activity', within: 'all_stores' },
      schema: {
        operationId: 'listActivity',
        summary: 'The audit log, newest first',
        querystring: ActivityQuery,
        response: { 200: ActivityResponse },
      },
    },
    async (request) => {
      const { action, resource_type, status, client, order_id, person_id, from, to } = request.query
      const page = await readActivity(
        deps,
        {
          action,
          resourceType: resource_type,
          status,
          client: clientOfManager(request, client),
          order: order_id,
          person: person_id,
          from: from === undefined ? undefined : new Date(from),
          to: to === undefined ? undefined : new Date(to),
        },
        sequencePageOf(request.query),
      )
      const shown = page.rows.filter(({ isForged }) => !isForged)
      const whoOf = await createAuthorOf(deps.database.db, shown)
      return {
        logs: shown.map((row) => ({
          ...row,
          who: whoOf(row),
          seq: row.seal?.seq ?? null,
          hash: row.seal?.hash ?? null,
        })),
        total: page.total,
        ...cursorsOf(page, (row) => String(row.seq)),
      }
    },
  )
}

/** The check of the whole log; beside `activityRoutes`. */
export const activityCheckRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  let checks = 0
  app.get(
    '/verify',
    {
      config: { needs: 'administer' },
      schema: {
        operationId: 'verifyActivity',
        summary: 'Check that no entry of the audit log was changed, removed or added',
        description: verifyDescription,
        querystring: VerifyQuery,
        response: { 200: VerifyResponse },
      },
    },
    async (request, reply) => {
      const { checkpoint_seq: seq, checkpoint_hash: hash } = request.query
      if ((seq === undefined) !== (hash === undefined)) {
        const missing = seq === undefined ? 'checkpoint_seq' : 'checkpoint_hash'
        throw invalid(missing, { code: 'CHECKPOINT_INCOMPLETE' })
      }
      if (checks >= checksAtOnce) throw new AppError('RATE_LIMITED', retrySoon)
      const ended = new AbortController()
      const forget = app.shutdown.onClosing(() =>
        ended.abort(
          new AppError('SERVICE_UNAVAILABLE', {
            message: 'The service is stopping; try again',
            ...retrySoon,
          }),
        ),
      )
      const hangUp = () => ended.abort(new AppError('SERVICE_UNAVAILABLE', retrySoon))
      reply.raw.once('close', hangUp)
      if (reply.raw.closed) hangUp()
      checks += 1
      try {
        const { brokenAt, findings, ...check } = await verifyActivityChain(
          { auditKey: deps.auditKey, db: deps.database.db },
          {
            checkpoint: seq === undefined || hash === undefined ? undefined : { seq, hash },
            signal: ended.signal,
          },
        )
        return {
          ...check,
          broken_at: brokenAt,
          findings: findings.map((one) => ({ ...one, entry_id: one.entryId })),
        }
      } finally {
        checks -= 1
        forget()
        reply.raw.off('close', hangUp)
      }
    },
  )
}

const retrySoon = { extra: { retryAfterSeconds: 1 } }
