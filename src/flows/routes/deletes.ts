import type { HttpServer } from '../../http/create-server.ts'
import { toWire } from '../api-model.ts'
import { givenKey } from '../item/item.ts'
import {
  actorOf,
  type ControlDeps,
  forFlow,
  languageOf,
  sourceResponses,
  viewSynced,
} from './control-deps.ts'
import { ApproveBody, ApprovedResponse, DeletesResponse, FlowParams } from './control-schemas.ts'

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
      const found = await flows.heldDeletes(name)
      return toWire(DeletesResponse, { name, ...found }, languageOf(request))
    },
  )

  app.post(
    '/flow/:name/deletes/approve',
    {
      ...forFlow,
      schema: {
        operationId: 'approveDeletes',
        summary: 'Approve deletes once, and poll',
        description:
          'This cannot be undone. Of one missing item, of several, or of all that need approval by deletes.guard as the last full scan found them. What vanishes later needs approval again. 400 when nothing needs approval. A paused flow sends them after it was resumed.',
        tags: ['Sync'],
        params: FlowParams,
        body: ApproveBody,
        response: { 200: ApprovedResponse, ...sourceResponses },
      },
    },
    async (request) => {
      const { name } = request.params
      const { pk, pks = pk === undefined ? undefined : [pk] } = request.body ?? {}
      const wanted = pks && [...new Set(pks.map(givenKey))]
      const outcome = await flows.approveDeletes(name, wanted, actorOf(request))
      return { name, status: 'approved' as const, ...viewSynced(outcome, languageOf(request)) }
    },
  )
}
