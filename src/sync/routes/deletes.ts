import type { Language } from '../../domain/language.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { HeldDeletes } from '../flow-service.ts'
import { givenKey } from '../item/key.ts'
import { ApproveBody, ApprovedResponse, DeletesResponse, FlowParams } from '../schemas.ts'
import { actorOf, type ControlDeps, forFlow, sourceResponses } from './room.ts'
import { languageOf, viewReason, viewSynced } from './views.ts'

export function viewHeld(held: HeldDeletes | null, language: Language) {
  return (
    held && {
      ...held,
      why: viewReason(held.why, language),
      since: held.since.toISOString(),
    }
  )
}

export function addDeletes(app: HttpServer, { flows }: ControlDeps): void {
  app.get(
    '/flow/:name/deletes',
    {
      ...forFlow,
      schema: {
        operationId: 'readDeletes',
        summary: 'What is missing at the source and not deleted yet, and why not',
        tags: ['Monitoring'],
        params: FlowParams,
        response: { 200: DeletesResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const { scans, missing, pks, held, approvedAt } = await flows.heldDeletes(name)
      return {
        ...{ name, scans, missing, pks },
        held: viewHeld(held, languageOf(request)),
        approved_at: approvedAt?.toISOString() ?? null,
      }
    },
  )

  app.post(
    '/flow/:name/deletes/approve',
    {
      ...forFlow,
      schema: {
        operationId: 'approveDeletes',
        summary: 'Let held deletes through once, and poll',
        description:
          'Of one missing item, or of all that deletes.guard holds back as the last full scan found them. What vanishes later is held back as ever. 400 when nothing is held. A paused flow sends them after it was resumed.',
        tags: ['Sync'],
        params: FlowParams,
        body: ApproveBody,
        response: { 200: ApprovedResponse, ...sourceResponses },
      },
    },
    async (request) => {
      const { name } = request.params
      const pk = request.body?.pk === undefined ? undefined : givenKey(request.body.pk)
      const outcome = await flows.approveDeletes(name, pk, actorOf(request))
      return { name, status: 'approved' as const, ...viewSynced(outcome, languageOf(request)) }
    },
  )
}
