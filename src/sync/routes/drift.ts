import type { HttpServer } from '../../http/create-server.ts'
import { ApproveDriftBody, DriftResponse } from '../drift-schemas.ts'
import type { HeldDrift } from '../flow-service.ts'
import { DriftApprovedResponse, FlowParams } from '../schemas.ts'
import { actorOf, type ControlDeps, failureResponse, forFlow, sourceResponses } from './room.ts'

export function viewDrift(held: HeldDrift | null) {
  return (
    held && {
      reason: held.reason,
      findings: held.findings.map((one) => ({
        kind: one.kind,
        field: one.kind === 'changed' ? null : one.field,
        was: one.kind === 'type' ? one.was : null,
        is: one.kind === 'type' ? one.is : null,
        items: one.kind === 'changed' ? one.items : null,
        known: one.kind === 'changed' ? one.known : null,
      })),
      since: held.since.toISOString(),
      read: held.read,
      approved_at: held.approvedAt?.toISOString() ?? null,
    }
  )
}

const description = `What the poll found that \`held.read\` names is sent once, if the source still looks like that, and with it what waited
meanwhile. What is found to be different after that holds the flow again. 400 when the flow is not held. A paused flow goes on
after it was resumed.`

/** A flow whose source does not look as it did, and letting it go on. */
export function addDrift(app: HttpServer, { flows }: ControlDeps): void {
  app.get(
    '/flow/:name/drift',
    {
      ...forFlow,
      schema: {
        operationId: 'readDrift',
        summary: 'Why a flow is held: what of its source does not look as it did',
        tags: ['Monitoring'],
        params: FlowParams,
        response: { 200: DriftResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      return { name, held: viewDrift(await flows.heldDrift(name)) }
    },
  )

  app.post(
    '/flow/:name/drift/approve',
    {
      ...forFlow,
      schema: {
        operationId: 'approveDrift',
        summary: 'Let a held flow go on, and poll',
        description,
        tags: ['Sync'],
        params: FlowParams,
        body: ApproveDriftBody,
        response: {
          200: DriftApprovedResponse,
          409: failureResponse('Something else was found since `read`; look at it first'),
          ...sourceResponses,
        },
      },
    },
    async (request) => {
      const { name } = request.params
      const outcome = await flows.approveDrift(name, request.body?.read, actorOf(request))
      return { name, status: 'approved' as const, ...outcome }
    },
  )
}
